package ipam

import (
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// othersUse says of an address that its owner refuses why, and what ends that. No host is forgotten while a container here has an
// address of it.
func (m *Machine) othersUse(p *pool.Pool, o addr.Offset, err error) (why, other string) {
	why, _, _ = strings.Cut(err.Error(), ": ") // what follows is for whoever asked
	why = strings.TrimPrefix(why, fmt.Sprintf("address %v in %s ", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool)))
	switch t, _ := p.Ring.At(o); {
	case t.Owner == ring.Free || t.Owner == ring.Reserved || t.Owner == m.members.Self():
		return why, ""
	case m.state.Member(t.Owner) == nil:
		return why, "bring that host back; if it is gone for good, stop that container, run ringlet forget " + m.refOf(t.Owner) + ", and start it again"
	default:
		return why, "the other holder on " + m.members.View().NameOf(t.Owner)
	}
}
