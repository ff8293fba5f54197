package call_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// What is wrong with a request is told without a peer.
func Example() {
	_, err := (&call.PoolCreation{CIDR: netip.MustParsePrefix("10.50.0.1/24")}).Check()
	fmt.Println(err)
	q := call.AddressRequest{Purpose: call.ForClient, ID: "printer"}
	fmt.Println(q.Asker())
	// Output:
	// 10.50.0.1/24 has bits set behind its mask: did you mean 10.50.0.0/24
	// "printer"
}

func TestCheck(t *testing.T) {
	first, second := netip.MustParseAddr("10.50.0.7"), netip.MustParseAddr("10.50.0.8")
	lab := netip.MustParsePrefix("10.50.0.0/24")
	reserve := func(kind chronicle.Kind, last netip.Addr, note string) error {
		return (&call.ReserveRequest{First: first, Last: last, Kind: kind, Note: note}).Check()
	}
	locks := func(name, holder string, token uint64) error {
		return (&call.LockRequest{Want: lock.Want{Name: name, Holder: holder, Token: token}}).Check()
	}
	creates := func(cidr, name string) error {
		_, err := (&call.PoolCreation{CIDR: netip.MustParsePrefix(cidr), Name: name}).Check()
		return err
	}
	for what, c := range map[string]struct {
		err  error
		want string // part of the sentence; empty: nothing is wrong
	}{
		"a range is excluded":             {reserve(chronicle.KindExcluded, second, ""), ""},
		"an address is kept for a name":   {reserve(chronicle.KindKeptForName, first, "printer"), ""},
		"a gateway is no operator's":      {reserve(chronicle.KindGateway, first, ""), "but not reserved as gateway"},
		"a long note":                     {reserve(chronicle.KindExcluded, first, strings.Repeat("x", chronicle.MaxNote+1)), "can have at most"},
		"no name":                         {reserve(chronicle.KindKeptForName, first, ""), "name the container, the MAC or the holder"},
		"a name that is not UTF-8":        {reserve(chronicle.KindKeptForName, first, "a\xff"), "is not UTF-8"},
		"a range for a name":              {reserve(chronicle.KindKeptForName, second, "printer"), "only single addresses"},
		"a holder":                        {(&call.ClientRequest{ID: "printer"}).Check(), ""},
		"a holder without a name":         {(&call.ClientRequest{}).Check(), "with 1 to 255 bytes, not 0"},
		"a holder that is not UTF-8":      {(&call.ClientRequest{ID: "\xff"}).Check(), "is not UTF-8"},
		"a lock":                          {locks("backup", "cron", 1), ""},
		"a lock without a name":           {locks("", "cron", 1), "name"},
		"a lock without a token":          {locks("backup", "cron", 0), "a token that is not 0"},
		"a pool":                          {creates("10.50.0.0/24", "lab"), ""},
		"a pool with a bad name":          {creates("10.50.0.0/24", "-"), "name"},
		"a pool that is too wide":         {creates("2001:db8::/40", ""), "/64"},
		"a network without a subnet":      {(&call.PoolRequest{}).Check(), ""},
		"a network":                       {(&call.PoolRequest{Space: poolid.Local, Pool: lab}).Check(), ""},
		"a range outside the subnet":      {(&call.PoolRequest{Space: poolid.Local, Pool: lab, Range: netip.MustParsePrefix("10.51.0.0/25")}).Check(), "10.51.0.0/25"},
		"a gateway address outside of it": {(&call.PoolRequest{Space: poolid.Local, Pool: lab, Gateway: poolid.GatewayAddr, GatewayAddr: netip.MustParseAddr("10.51.0.1")}).Check(), "10.51.0.1"},
		"a network's range is its subnet's": {func() error {
			n, err := (&call.PoolRequest{Space: poolid.Local}).On(lab)
			if n.Range != lab {
				t.Errorf("range is %v", n.Range)
			}
			return err
		}(), ""},
	} {
		switch {
		case c.want == "" && c.err != nil:
			t.Errorf("%s: %v", what, c.err)
		case c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)):
			t.Errorf("%s: %v, and not %q", what, c.err, c.want)
		}
	}
}
