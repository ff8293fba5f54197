package driver

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// The options of a network (--ipam-opt).
const (
	optionPool    = "pool"
	optionGateway = "gateway"
	optionProbe   = "probe"
	optionSize    = "size"
	optionSticky  = "sticky"
)

const knownOptions = "the options are pool=NAME, gateway=host|first|last|none|ADDRESS, probe=none|arp|strict, size=BITS and sticky=name|mac|none"

// The lengths of subnets that can be chosen. They do not meet, so the number
// tells the family.
const (
	widest4, narrowest4 = 8, 30
	widest6, narrowest6 = 64, 126
)

// options are the options of one network. A network of both families is
// requested in two halves with the same options; what speaks of one family
// means nothing in the other half.
type options struct {
	pool        string
	gateway     ipam.GatewayMode
	gatewayAddr netip.Addr // with ipam.GatewayAddr only
	sticky      ipam.Sticky
	probe       ipam.Probe
	bits        int  // length of the subnet to choose, 0 for none
	other       bool // the length of the option size is one of the other family
	unknown     bool // there was an option that ringlet does not have
}

// parseOptions reads the options of a network's half of one family, and tells
// all that is wrong with them, in the order of their names.
func parseOptions(pairs map[string]string, v6 bool) (o options, problems []string) {
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		var err error
		switch val := pairs[key]; {
		case key == optionType || strings.HasPrefix(key, engineOptions):
			// A swarm manager's own.
		case key == optionPool:
			if o.pool = val; val == "" {
				err = fmt.Errorf("pool needs a name, as in pool=lab")
			}
		case key == optionGateway:
			o.gateway, o.gatewayAddr, err = poolid.ParseGateway(val)
			if o.gateway == ipam.GatewayAddr && o.gatewayAddr.Is6() != v6 {
				o.gateway, o.gatewayAddr = ipam.GatewayHost, netip.Addr{}
			}
		case key == optionProbe:
			if o.probe, err = poolid.ParseProbe(val); v6 {
				o.probe = ipam.ProbeNone // IPv6 has no ARP
			}
		case key == optionSize:
			o.bits, err = parseSize(val, v6)
			o.other = o.bits == 0
		case key == optionSticky:
			o.sticky, err = poolid.ParseSticky(val)
		default:
			o.unknown = true
			err = fmt.Errorf("there is no option %s", quote(key))
		}
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	return o, problems
}

// parseSize reads the length of the subnet to choose, or one for each family, as in 26,80. It returns 0 if none is of this
// family.
func parseSize(val string, v6 bool) (bits int, err error) {
	var seen4, seen6 bool
	for part := range strings.SplitSeq(val, ",") {
		n, err := strconv.Atoi(part)
		is4 := n >= widest4 && n <= narrowest4
		is6 := n >= widest6 && n <= narrowest6
		if err != nil || !is4 && !is6 || is4 && seen4 || is6 && seen6 {
			return 0, fmt.Errorf("size must be a prefix length from %d to %d for IPv4, or from %d to %d for IPv6, or both as in 26,80, not %s",
				widest4, narrowest4, widest6, narrowest6, quote(val))
		}
		seen4, seen6 = seen4 || is4, seen6 || is6
		if is6 == v6 {
			bits = n
		}
	}
	return bits, nil
}
