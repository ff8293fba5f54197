package departure

import (
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// Membership is where a peer stands. It tells which one is meant where a name fits several, such as that of a host that
// was rebuilt.
type Membership uint8

// A peer is in the roster, or was evicted from it, or its space was given up since.
const (
	InRoster Membership = iota
	Evicted
	Forgotten
)

// Find returns the peer of the roster, or the former one, that somebody means: by its ID, the beginning of it, or its
// name. A name that fits several means the only one of them that is as wanted, if there is one. The error, a
// [sentence.Error], says which there are.
func Find(v cluster.View, ref string, wanted Membership) (peer.ID, error) {
	found := map[Membership][]peer.ID{}
	var all []peer.ID
	look := func(id peer.ID, as Membership) {
		if string(v.GoesBy(id)) == ref || len(ref) >= 8 && strings.HasPrefix(id.String(), strings.ToLower(ref)) {
			found[as] = append(found[as], id)
			all = append(all, id)
		}
	}
	for _, member := range v.State.Roster {
		look(member.ID, InRoster)
	}
	for _, gone := range v.State.Former {
		as := Evicted
		if gone.Forgotten {
			as = Forgotten
		}
		look(gone.ID, as)
	}
	switch {
	case len(all) == 0:
		return peer.None, sentence.Errorf(sentence.ErrPeerNotFound, "there is no peer %s: use a name that ringlet peers shows, or 8 digits or more of an ID", ref)
	case len(all) == 1:
		return all[0], nil
	}
	for _, as := range []Membership{wanted, InRoster, Evicted} {
		if len(found[as]) == 1 {
			return found[as][0], nil
		}
		if len(found[as]) > 1 {
			break
		}
	}
	texts := make([]string, len(all))
	for i, id := range all {
		texts[i] = fmt.Sprintf("%s (%s)", id, v.NameOf(id))
	}
	return peer.None, sentence.Errorf(sentence.ErrBadRequest, "%s can mean several peers, %s: name one by its ID", ref, strings.Join(texts, ", "))
}
