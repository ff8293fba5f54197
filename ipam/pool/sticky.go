package pool

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/space"
)

// Known returns a name as it is kept: one that is longer than any engine makes is none.
func Known(name string) string {
	if len(name) > call.MaxHolder {
		return ""
	}
	return name
}

var nameSeed, macSeed = space.SeedOf("name"), space.SeedOf("mac") //nolint:gochecknoglobals // constants that Go cannot compute

// NameKey returns what brings a container back to its former address by its name.
func NameKey(name string) space.Key { return nameSeed.KeyOf(name) }

// macKey returns the key of a MAC, nothing of none.
func macKey(mac [6]byte) space.Key {
	if mac == [6]byte{} {
		return space.NoKey
	}
	return macSeed.KeyOf(string(mac[:]))
}

// KeyOf returns what brings a holder back to its former address, or nothing.
func KeyOf(s poolid.Sticky, h *space.Holder) space.Key {
	switch {
	case h.Kind == space.Client:
		return space.KeyOf("client", h.Ref)
	case h.Kind == space.Gateway:
		return GatewayKey()
	case s == poolid.StickyNone:
		return space.NoKey
	case s == poolid.StickyName && h.Name != "":
		return NameKey(h.Name)
	}
	return macKey(h.MAC)
}

// formerly is an address whose record has a key of the engine before this one.
type formerly struct {
	at  addr.Offset
	key space.Key
}

// StickBy has containers found by their names, as the engine sends them, or by their MACs. An engine before 29 sends no
// names, but its lists have them. After the engine was replaced by a later or an earlier one, a container is to be found by
// what its former engine did not send, or by its MAC where no list had its name.
func (s *Pools) StickBy(name bool) {
	for _, p := range s.all {
		clear(p.former)
		for o, rec := range p.Records() {
			if rec.Kind != space.Container || rec.MAC == [6]byte{} {
				continue
			}
			switch mac, called := macKey(rec.MAC), NameKey(rec.Name); {
			case name && rec.Key == mac:
				p.leadTo(o, &rec, mac)
				p.leadTo(o, &rec, called)
			case !name && rec.Key == called:
				p.leadTo(o, &rec, mac)
			}
		}
	}
}

// leadTo has a key lead to an address, unless it leads to one whose state began later.
func (p *Pool) leadTo(o addr.Offset, rec *space.Record, k space.Key) {
	if f, ok := p.former[k]; !ok || p.Space.Lookup(f.at).Seq < rec.Seq {
		remember(&p.former, k, formerly{o, rec.Key})
	}
}

// TraceOf returns what leads to the former address of a container, or to the one that it has: its name, and then its MAC.
func (p *Pool) TraceOf(s poolid.Sticky, h *space.Holder) space.Trace {
	t := p.Space.Find(h.Key)
	if len(p.former) == 0 || t.IsHeld || t.IsFormer || h.Kind != space.Container || s != poolid.StickyName {
		return t
	}
	for _, k := range [...]space.Key{h.Key, macKey(h.MAC)} {
		f, ok := p.former[k]
		switch rec := p.Space.Lookup(f.at); {
		case !ok || rec.Kind != space.Container || rec.Key != f.key: // another has had it since
		case rec.State == space.Held:
			return space.Trace{Held: f.at, IsHeld: true}
		case rec.State == space.Freed && p.Space.Usable(f.at):
			return space.Trace{Former: f.at, IsFormer: true}
		}
	}
	return t
}

// MayReturn reports whether a holder may come back to its former address, or to the one that it has: also outside of the
// network's part of the pool, if it had it on this very network, where it was named.
func (p *Pool) MayReturn(want addr.Range, o addr.Offset, h *space.Holder) bool {
	return want.Contains(o) || h.Network != 0 && p.Space.Lookup(o).Network == h.Network
}
