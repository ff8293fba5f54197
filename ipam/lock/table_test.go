package lock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

var (
	nas  = peer.ID{1}
	desk = peer.ID{2}
)

func take(t *testing.T, of *lock.Table, owner peer.ID, name string, slot uint64) uint64 {
	t.Helper()
	fence, refused := of.Take(owner, lock.Want{Name: name, Holder: "a program", Token: slot, Since: 1_700_000_000}, slot)
	if refused != "" {
		t.Fatal(refused)
	}
	return fence
}

// An end counts only for the holder that it names: a late one ends nothing of a later holder's.
func TestEnd(t *testing.T) {
	var l lock.Table
	first := take(t, &l, nas, "backup", 5)
	if l.End("backup", first+1, peer.None) || l.End("backup", first, desk) || l.End("other", first, peer.None) {
		t.Error("somebody else ends a lock")
	}
	if !l.End("backup", first, nas) || l.End("backup", first, nas) {
		t.Error("a lock ends other than once")
	}
	second := take(t, &l, desk, "backup", 9)
	if l.End("backup", first, peer.None) || l.Of("backup").Fence != second {
		t.Error("the end of the first holder ends the lock of the second")
	}
	if !l.End("backup", second, peer.None) || l.Of("backup") != nil {
		t.Error("a lock does not end")
	}
}

// Who recovers a cluster gives higher fences than the lost majority, and ends the locks of the lost peers.
func TestLeap(t *testing.T) {
	var known, lost lock.Table
	take(t, &known, nas, "backup", 5)
	take(t, &known, desk, "report", 5)
	lost = known
	last := take(t, &lost, desk, "mail", 90_000)
	known.Keep(func(id peer.ID) bool { return id == nas })
	known.Leap()
	if known.Of("backup") == nil || known.Of("report") != nil || lost.Of("report") == nil {
		t.Errorf("the locks are %v", known.Locks)
	}
	if fence := take(t, &known, nas, "mail", 6); fence <= last {
		t.Errorf("a recovered cluster gives fence %d, and %d was given before", fence, last)
	}
}

// Who has the list reads it as it was, whatever becomes of the table.
func TestListStays(t *testing.T) {
	var l lock.Table
	first := take(t, &l, nas, "b", 1)
	take(t, &l, desk, "c", 2)
	list := l.Locks
	was := slices.Clone(list)
	take(t, &l, nas, "a", 3)
	l.End("b", first, nas)
	l.Keep(func(id peer.ID) bool { return id == nas })
	if diff := cmp.Diff(was, list); diff != "" {
		t.Error(diff)
	}
	if names := []string{l.Locks[0].Name}; len(l.Locks) != 1 || names[0] != "a" {
		t.Errorf("the locks are %v", l.Locks)
	}
}

func TestRefused(t *testing.T) {
	var l lock.Table
	for name, w := range map[string]lock.Want{
		"no name":     {Token: 1},
		"a slash":     {Name: "a/b", Token: 1},
		"a space":     {Name: "a b", Token: 1},
		"dots":        {Name: "..", Token: 1},
		"a long name": {Name: strings.Repeat("x", lock.MaxName+1), Token: 1},
		"no token":    {Name: "a"},
		"a long text": {Name: "a", Holder: strings.Repeat("x", lock.MaxHolder+1), Token: 1},
	} {
		if _, refused := l.Take(nas, w, 1); refused == "" {
			t.Errorf("%s is no reason to refuse a lock", name)
		}
	}
	for i := range lock.MaxLocks {
		take(t, &l, nas, fmt.Sprint("lock-", i), uint64(i+1))
	}
	if _, refused := l.Take(nas, lock.Want{Name: "one-more", Token: 1}, 1); !strings.Contains(refused, "1024 locks are held") {
		t.Errorf("one more is refused with %q", refused)
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
}

func TestRead(t *testing.T) {
	var l lock.Table
	if l.Append(nil) != nil || l.Hash() != 0 || !l.IsZero() {
		t.Error("a table without locks is written")
	}
	take(t, &l, nas, "b", 1)
	take(t, &l, desk, "a.b_c-d:e@f+G9", 1<<40)
	l.Leap()
	take(t, &l, nas, "c", 3)
	b := l.Append(nil)
	got := lock.Read(codec.NewReader(b))
	if diff := cmp.Diff(l, got); diff != "" {
		t.Error(diff)
	}
	if got.Hash() != l.Hash() || got.Hash() == 0 {
		t.Error("the hashes differ")
	}
	for n := 1; n < len(b); n++ {
		r := codec.NewReader(b[:n])
		if lock.Read(r); !errors.Is(r.Done(), codec.ErrCorrupt) {
			t.Errorf("%d bytes of %d are read", n, len(b))
		}
	}
	twice := lock.Table{Locks: []lock.Lock{l.Locks[0], l.Locks[0]}}
	r := codec.NewReader(twice.Append(nil))
	if lock.Read(r); !errors.Is(r.Done(), codec.ErrCorrupt) || twice.Check() == nil {
		t.Error("a lock that stands twice is read")
	}
}
