package call

import (
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

func bad(format string, args ...any) error {
	return sentence.Errorf(sentence.ErrBadRequest, format, args...)
}

// On returns the network that the request makes on a pool, and what is wrong with it.
func (q *PoolRequest) On(pool netip.Prefix) (poolid.Network, error) {
	n := poolid.Network{
		Space: q.Space, Pool: pool, Range: q.Range.Masked(),
		Gateway: q.Gateway, GatewayAddr: q.GatewayAddr, Sticky: q.Sticky, PoolName: q.PoolName, Probe: q.Probe,
		Subnet: q.Subnet,
	}
	if !q.Range.IsValid() {
		n.Range = pool
	}
	return n, n.Check()
}

// Check reports what is wrong with a request that names a subnet, before a pool is made that its network could not use.
func (q *PoolRequest) Check() error {
	if !q.Pool.IsValid() {
		return nil
	}
	var n poolid.Network
	cidr, err := addr.Checked(q.Pool)
	if err == nil {
		n, err = q.On(cidr)
	}
	if err == nil {
		err = n.CheckGateway()
	}
	if err != nil {
		return bad("%v", err)
	}
	return nil
}

// Asker names the holder that asks for an address.
func (q *AddressRequest) Asker() string {
	h := space.Holder{Kind: space.Container, Name: q.Name, MAC: q.MAC, Ref: q.ID}
	switch q.Purpose {
	case ForGateway:
		return "a network, as its gateway"
	case ForUnmarked:
		return "the engine, as an auxiliary address or for an endpoint that it has"
	case ForClient:
		h.Kind = space.Client
	case ForContainer:
	}
	return sentence.Who(h)
}

// Check reports what is wrong with the name of the holder.
func (q *ClientRequest) Check() error {
	if len(q.ID) == 0 || len(q.ID) > MaxHolder {
		return bad("name the holder of the address with 1 to %d bytes, not %d", MaxHolder, len(q.ID))
	}
	return checkText(q.ID)
}

// Check returns the subnet as it is written otherwise, or what is wrong with the request.
func (q *PoolCreation) Check() (netip.Prefix, error) {
	if q.CIDR != q.CIDR.Masked() {
		return netip.Prefix{}, bad("%v has bits set behind its mask: did you mean %v", q.CIDR, q.CIDR.Masked())
	}
	cidr, err := addr.Checked(q.CIDR)
	if err != nil {
		return netip.Prefix{}, bad("%v", err)
	}
	if q.Name != "" && !chronicle.ValidName(q.Name) {
		return netip.Prefix{}, bad("%v", poolid.NameError(q.Name))
	}
	return cidr, nil
}

// Check reports what is wrong with the request, whatever pool it means.
func (q *ReserveRequest) Check() error {
	switch {
	case q.Kind != chronicle.KindExcluded && q.Kind != chronicle.KindKeptForName:
		return bad("addresses can be excluded or reserved for a name, but not reserved as %v", q.Kind)
	case len(q.Note) > chronicle.MaxNote:
		return bad("a note or name can have at most %d bytes, not %d", chronicle.MaxNote, len(q.Note))
	case q.Kind == chronicle.KindKeptForName && q.Note == "":
		return bad("name the container, the MAC or the holder to reserve %v for", q.First)
	case !isText(q.Note):
		return checkText(q.Note)
	case q.Kind == chronicle.KindKeptForName && q.First != q.Last:
		return bad("only single addresses can be reserved for a name, not %v-%v: exclude the range, or name one address of it", q.First, q.Last)
	}
	return nil
}

// Check reports what is wrong with the request, whoever has the lock.
func (q *LockRequest) Check() error {
	if err := lock.CheckName(q.Name); err != nil {
		return bad("%v", err)
	}
	if len(q.Holder) > lock.MaxHolder || q.Token == 0 || !isText(q.Holder) {
		return bad("who asks for a lock has a name of at most %d bytes of UTF-8, and a token that is not 0", lock.MaxHolder)
	}
	return nil
}

// isText reports whether a name is UTF-8, and has no character in it that stands
// where there was none: what puts it there makes one name of several.
func isText(name string) bool {
	return !strings.ContainsRune(name, '\uFFFD') // which finds both
}

func checkText(name string) error {
	if isText(name) {
		return nil
	}
	return bad("the name %+q is not UTF-8, or was damaged on its way here: send it as UTF-8, or use another one", name)
}
