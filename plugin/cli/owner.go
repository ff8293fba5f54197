package cli

import "github.com/ringlet/ringlet/ipam"

// owners tells the owners of ranges apart.
type owners struct {
	self  string          // ID of this peer
	names map[string]part // by ID
}

// ownersOf gives each peer a letter and a colour, in the order in which the
// status lists them.
func ownersOf(st ipam.Status) owners {
	o := owners{self: st.Self.ID, names: map[string]part{}}
	called := map[string]int{}
	for _, p := range st.Peers {
		called[p.Name]++
	}
	styles := []style{green, blue, yellow, red}
	for i, p := range st.Peers {
		letter := '*' // for all peers beyond the alphabet
		if i < 26 {
			letter = 'A' + rune(i)
		}
		name := safe(p.Name)
		if called[p.Name] > 1 {
			name += " " + p.ID[:min(len(p.ID), 8)] // as commands take it
		}
		if p.ID == o.self {
			name += " (this peer)"
		}
		if p.State == stateEvicted {
			name += " (evicted)"
		}
		o.names[p.ID] = part{letter: letter, style: styles[i%len(styles)], text: name}
	}
	return o
}

// part returns how the owner of a range is drawn and called.
func (o owners) part(r ipam.RangeStatus) part {
	switch r.Owner {
	case "free":
		return part{letter: letterFree, text: "free"}
	case "reserved":
		return part{letter: letterReserved, style: grey, text: "reserved"}
	}
	if p, ok := o.names[r.Owner]; ok {
		return p
	}
	return part{letter: letterQuarantined, style: red, text: "quarantined"} // of a peer that was forgotten
}
