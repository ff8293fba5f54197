package chronicle_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A lock is its owner's until that one ends it, somebody says that the owner is silent, or the owner leaves the roster.
func TestLocks(t *testing.T) {
	want := func(token uint64) chronicle.Lock {
		return chronicle.Lock{Want: lock.Want{Name: "backup", Token: token}}
	}
	for name, end := range map[string]func(w *world, fence uint64){
		"it is ended":      func(w *world, fence uint64) { w.ok(b, chronicle.Unlock{Name: "backup", Fence: fence}) },
		"it expires":       func(w *world, fence uint64) { w.ok(a, chronicle.Expire{Name: "backup", Fence: fence}) },
		"its owner leaves": func(w *world, _ uint64) { w.ok(b, chronicle.Retire{Peer: b}) },
		"its owner goes":   func(w *world, _ uint64) { w.ok(a, chronicle.Evict{Peer: b}) },
	} {
		w := found(t, a, b, c)
		w.ok(b, want(1))
		first := w.s.Locks.Of("backup")
		if first == nil || first.Owner != b || first.Fence != w.s.Slot {
			t.Fatalf("%s: the lock is %+v at slot %d", name, first, w.s.Slot)
		}
		w.refused(c, want(2))
		w.refused(c, chronicle.Unlock{Name: "backup", Fence: first.Fence})
		w.refused(peer.ID{77}, chronicle.Expire{Name: "backup", Fence: first.Fence})
		w.refused(peer.ID{77}, want(3))
		end(w, first.Fence)
		if w.s.Locks.Of("backup") != nil {
			t.Errorf("%s, and the lock is held", name)
		}
		w.ok(c, want(4))
		w.refused(b, chronicle.Unlock{Name: "backup", Fence: first.Fence})
		w.refused(a, chronicle.Expire{Name: "backup", Fence: first.Fence})
		if second := w.s.Locks.Of("backup"); second.Fence <= first.Fence {
			t.Errorf("%s: fence %d follows %d", name, second.Fence, first.Fence)
		}
	}
}
