package chronicle_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// An ID whose space was given up, or that was retired, is admitted again at level 1, as the first release had it, and never from
// level 2 on. One that was evicted alone comes back at any.
func TestUsedUp(t *testing.T) {
	a, forgotten, retired, evicted := peer.ID{1}, peer.ID{2}, peer.ID{3}, peer.ID{4}
	for level := chronicle.Level(1); level <= 2; level++ {
		s, number := &chronicle.State{}, uint64(0)
		does := func(action chronicle.Action) string {
			number++
			return s.Apply([]chronicle.Command{{Author: a, Number: number, Action: action}})[0].Refused
		}
		does(chronicle.Found{Cluster: [16]byte{1}, Peers: []chronicle.Founder{{ID: a}, {ID: forgotten}, {ID: retired}, {ID: evicted}}})
		if level > 1 {
			does(chronicle.Raise{Level: level})
		}
		does(chronicle.Evict{Peer: forgotten})
		does(chronicle.Forget{Peer: forgotten, Evicted: s.Slot})
		does(chronicle.Retire{Peer: retired})
		does(chronicle.Evict{Peer: evicted})
		for id, used := range map[peer.ID]bool{forgotten: true, retired: true, evicted: false} {
			refused := does(chronicle.Admit{Founder: chronicle.Founder{ID: id}, Speaks: level}) != ""
			if want := used && level > 1; refused != want {
				t.Errorf("level %d, peer %s: refused %t", level, id.Short(), refused)
			}
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}
