package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// known returns a name as it is kept: one that is longer than any engine
// makes is none.
func known(name string) string {
	if len(name) > MaxHolder {
		return ""
	}
	return name
}

// stickyKey returns what brings a holder back to its former address, or
// nothing.
func stickyKey(s Sticky, h *space.Holder) space.Key {
	switch {
	case h.Kind == space.Client:
		return space.KeyOf("client", h.Ref)
	case h.Kind == space.Gateway:
		return gatewayKey()
	case s == StickyNone:
		return space.NoKey
	case s == StickyName && h.Name != "":
		return nameKey(h.Name)
	}
	return macKey(h.MAC)
}

// macKey returns the key of a MAC, nothing of none.
func macKey(mac [6]byte) space.Key {
	if mac == [6]byte{} {
		return space.NoKey
	}
	return macSeed.KeyOf(string(mac[:]))
}

// stickBy has containers found by their names, as the engine sends them, or by their MACs. An engine before 29 sends no names,
// but its lists have them. After the engine was replaced by a later or an earlier one, a container is to be found by what its
// former engine did not send.
func (m *Machine) stickBy(name bool) {
	for _, p := range m.pools.of {
		clear(p.Former)
		for o, rec := range p.Space.Records(addr.Whole(p.CIDR)) {
			if rec.Kind != space.Container || rec.Name == "" || rec.MAC == [6]byte{} {
				continue
			}
			had, sent := macKey(rec.MAC), nameKey(rec.Name)
			if !name {
				had, sent = sent, had
			}
			if rec.Key == had {
				remember(&p.Former, sent, o)
			}
		}
	}
}

// traceOf returns what leads to the former address of a container, or to the one that it has: its name, and then its MAC.
func (m *Machine) traceOf(p *pool.Pool, n *Network, h *space.Holder) space.Trace {
	found := func(t space.Trace) bool { return t.IsHeld || t.IsFormer }
	t := p.Space.Find(h.Key)
	if found(t) || h.Kind != space.Container || n.Sticky != StickyName {
		return t
	}
	if o, ok := p.Former[h.Key]; ok {
		switch rec := p.Space.Lookup(o); {
		case rec.Kind != space.Container || h.Key != nameKey(rec.Name) && h.Key != macKey(rec.MAC): // another has had it since
		case rec.State == space.Held:
			return space.Trace{Held: o, IsHeld: true}
		case rec.State == space.Freed && p.Space.Usable(o):
			return space.Trace{Former: o, IsFormer: true}
		}
	}
	if mac := macKey(h.MAC); mac != h.Key {
		return p.Space.Find(mac)
	}
	return t
}

func nameKey(name string) space.Key { return nameSeed.KeyOf(name) }
