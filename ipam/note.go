package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// noteUse notes what became of an address that somebody holds, or held, since then.
func (m *Machine) noteUse(kind NoteKind, p *pool.Pool, a netip.Addr, h *space.Holder, since int64) {
	n := m.out.Note()
	n.Kind, n.Pool, n.Address = kind, p.CIDR, a
	n.Last, n.Holder, n.From, n.To = netip.Addr{}, "", "", ""
	tellUse(&n.Use, h, since)
}

// tellUse sets what is known of a holder.
func tellUse(u *Use, h *space.Holder, since int64) {
	u.Kind, u.Container, u.Name, u.MAC = h.Kind.String(), h.Ref, h.Name, h.MAC
	u.Since = time.Unix(0, since).UTC()
}

// useOf is what a record says of its holder.
func useOf(rec *space.Record) (u Use) {
	tellUse(&u, &rec.Holder, rec.Since)
	return u
}
