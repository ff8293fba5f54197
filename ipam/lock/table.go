package lock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/table"
)

const (
	// MaxName is the longest name of a lock, in bytes.
	MaxName = 128
	// MaxHolder is the longest text that says who holds a lock, in bytes.
	MaxHolder = 255
	// MaxLocks is how many locks can be held at a time.
	MaxLocks = 1024
	// leap is how far the fences of a recovered cluster are ahead: see [Table.Leap].
	leap = 1 << 20
)

// Want is a lock as somebody asks for it.
type Want struct {
	Name   string // see [CheckName]
	Holder string // who asks, for people; at most MaxHolder bytes
	Token  uint64 // tells who asks from all others that ask for the lock, and repeats as they ask again; not 0
	Since  int64  // when it was asked for, by the clock of the author, in seconds since 1970, for people
}

// Lock is a lock that is held.
type Lock struct {
	Want
	Owner peer.ID // the peer whose host has it
	Fence uint64
}

// Table is the locks that are held. The zero Table has none.
type Table struct {
	Base  uint64 // what fences are ahead of the slots in which their locks were taken
	Locks []Lock // in order of their names; the list is never changed, only replaced, so that another goroutine may read it
}

// CheckName returns why a name is not one of a lock, nil if it is: 1 to 128 letters, digits and . _ - : @ +
func CheckName(name string) error {
	isName := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-:@+", r)
	}
	switch {
	case name == "" || len(name) > MaxName:
		return fmt.Errorf("the name of a lock has 1 to %d characters, not %d", MaxName, len(name))
	case strings.ContainsFunc(name, func(r rune) bool { return !isName(r) }):
		return fmt.Errorf("the name of a lock has letters, digits and the characters . _ - : @ + alone, and %q has others", name)
	case strings.Trim(name, ".") == "":
		return fmt.Errorf("%q cannot be the name of a lock", name)
	}
	return nil
}

// Of returns the lock of that name, nil if nobody has it.
func (t *Table) Of(name string) *Lock {
	i, held := t.find(name)
	if !held {
		return nil
	}
	return &t.Locks[i]
}

func (t *Table) find(name string) (int, bool) {
	return slices.BinarySearchFunc(t.Locks, name, func(l Lock, name string) int { return cmp.Compare(l.Name, name) })
}

// Take gives a lock that nobody has to an owner, in a slot, and returns the fence (R71, R72).
func (t *Table) Take(owner peer.ID, w Want, slot uint64) (fence uint64, refused string) {
	i, held := t.find(w.Name)
	switch {
	case held:
		return 0, "it is held"
	case CheckName(w.Name) != nil || len(w.Holder) > MaxHolder || w.Token == 0:
		return 0, "that is no lock"
	case len(t.Locks) >= MaxLocks:
		return 0, fmt.Sprintf("%d locks are held, and no more can be", MaxLocks)
	}
	l := Lock{Want: w, Owner: owner, Fence: t.Base + slot}
	t.Locks = slices.Insert(slices.Clone(t.Locks), i, l)
	return l.Fence, ""
}

// End ends a lock, if that fence is the present holder's (R73), and an owner's if one is named.
func (t *Table) End(name string, fence uint64, owner peer.ID) bool {
	i, held := t.find(name)
	if !held || t.Locks[i].Fence != fence || owner != peer.None && t.Locks[i].Owner != owner {
		return false
	}
	t.Locks = slices.Delete(slices.Clone(t.Locks), i, i+1)
	return true
}

// Keep ends the locks of all owners but those.
func (t *Table) Keep(owns func(peer.ID) bool) {
	gone := func(l Lock) bool { return !owns(l.Owner) }
	if slices.ContainsFunc(t.Locks, gone) {
		t.Locks = slices.DeleteFunc(slices.Clone(t.Locks), gone)
	}
}

// Leap has fences go on far ahead. A peer that recovers a cluster alone does not know which slots the lost majority has decided
// since, and so which fences were given (R70).
func (t *Table) Leap() { t.Base += leap }

// IsZero reports whether there is nothing to remember.
func (t *Table) IsZero() bool { return t.Base == 0 && len(t.Locks) == 0 }

// Append appends the table: what fences are ahead of slots, how many locks there are, and each. It appends nothing for a table
// that is zero.
func (t *Table) Append(b []byte) []byte {
	if t.IsZero() {
		return b
	}
	b = codec.Uint(codec.Uint(b, t.Base), uint64(len(t.Locks)))
	for _, l := range t.Locks {
		b = append(AppendWant(b, l.Want), l.Owner[:]...)
		b = codec.Uint(b, l.Fence)
	}
	return b
}

// AppendWant appends what somebody asks for.
func AppendWant(b []byte, w Want) []byte {
	b = codec.Bytes(codec.Bytes(b, w.Name), w.Holder)
	return codec.Uint(codec.Uint(b, w.Token), uint64(w.Since))
}

// ReadWant reads what [AppendWant] wrote.
func ReadWant(r *codec.Reader) Want {
	return Want{
		Name: string(r.Bytes("name of a lock", MaxName)), Holder: string(r.Bytes("holder of a lock", MaxHolder)),
		Token: r.Uint("token of a lock"), Since: int64(r.Uint("time of a lock")),
	}
}

// Read reads what [Table.Append] wrote at the end of a record.
func Read(r *codec.Reader) (t Table) {
	if r.Err() != nil || r.Rest() == 0 {
		return t
	}
	t.Base = r.Uint("lead of fences")
	for range r.Count("number of locks", 4) {
		l := Lock{Want: ReadWant(r), Owner: r.ID("owner of a lock"), Fence: r.Uint("fence")}
		if r.Err() != nil {
			return Table{}
		}
		t.Locks = append(t.Locks, l)
	}
	if t.IsZero() && r.Rest() > 0 {
		return t // what follows is no lock
	}
	if r.Err() == nil && (t.IsZero() || t.Check() != nil) {
		r.Fail("locks")
	}
	return t
}

// Hash returns a hash of the table, 0 if it is zero.
func (t *Table) Hash() uint64 {
	if t.IsZero() {
		return 0
	}
	return table.Hash(0, 0, t.Append(nil)) | 1
}

// Check reports whatever contradicts what a table must be.
func (t *Table) Check() error {
	var errs []error
	for i, l := range t.Locks {
		if i > 0 && t.Locks[i-1].Name >= l.Name {
			errs = append(errs, fmt.Errorf("lock %s stands out of order, or twice", l.Name))
		}
		if err := CheckName(l.Name); err != nil || len(l.Holder) > MaxHolder || l.Token == 0 || l.Owner == peer.None {
			errs = append(errs, fmt.Errorf("lock %q is none", l.Name))
		}
		if l.Fence == 0 {
			errs = append(errs, fmt.Errorf("lock %s has no fence", l.Name))
		}
	}
	if len(t.Locks) > MaxLocks {
		errs = append(errs, fmt.Errorf("there are %d locks", len(t.Locks)))
	}
	return errors.Join(errs...)
}
