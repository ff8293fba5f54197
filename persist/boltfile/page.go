package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The form of a page, see the package comment.
const (
	pageHeader  = 16
	branchKind  = 0x01
	leafKind    = 0x02
	bucketFlag  = 0x01
	bucketValue = 16
	entrySize   = 16
)

// page is one with those that it goes on in, or the inline leaf of a bucket.
type page []byte

// checkInline checks an inline leaf. The error says what it does.
func (p page) checkInline() error {
	switch end, err := p.check(); {
	case err != nil:
		return err
	case end != len(p):
		return fmt.Errorf("has %d bytes and needs %d", len(p), end)
	case p.kind() != leafKind:
		return fmt.Errorf("is of kind %#x", p.kind())
	case p.id() != 0:
		return fmt.Errorf("says that it is page %d", p.id())
	}
	return nil
}

// check finds entries that are not where they should be, one behind the other in order of their keys, and returns where
// the last one ends. The error says what the page does.
func (p page) check() (end int, err error) {
	if len(p) < pageHeader {
		return 0, fmt.Errorf("has %d bytes", len(p))
	}
	n := p.count()
	at := pageHeader + entrySize*n
	if at > len(p) {
		return 0, fmt.Errorf("has no room for its %d keys", n)
	}
	var last []byte
	for i := range n {
		place, size, value := p.places(i)
		if place != at {
			return 0, fmt.Errorf("has key %d of %d at byte %d instead of %d", i+1, n, place, at)
		}
		if at += size + value; at > len(p) {
			return 0, fmt.Errorf("has no room for key %d of %d", i+1, n)
		}
		key := p[place:][:size]
		if size == 0 {
			return 0, errors.New("has a key of no bytes")
		}
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return 0, fmt.Errorf("has key %x behind key %x", key, last)
		}
		last = key
	}
	return at, nil
}

func (p page) id() uint64        { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16      { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int        { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) following() uint32 { return binary.NativeEndian.Uint32(p[12:]) }

// child returns the page below a branch under its key with that number.
func (p page) child(i int) uint64 {
	return binary.NativeEndian.Uint64(p[pageHeader+entrySize*i+8:])
}

// places returns where in the page a key is, and how many bytes the key has and the value behind it.
func (p page) places(i int) (place, key, value int) {
	place = pageHeader + entrySize*i
	e := p[place:][:entrySize]
	first, second := int(binary.NativeEndian.Uint32(e)), int(binary.NativeEndian.Uint32(e[4:]))
	if p.kind() == branchKind {
		return place + first, second, 0
	}
	return place + second, int(binary.NativeEndian.Uint32(e[8:])), int(binary.NativeEndian.Uint32(e[12:]))
}

func (p page) key(i int) []byte {
	place, key, _ := p.places(i)
	return p[place:][:key]
}

// entry returns what a leaf has under its key with that number, and whether that is a bucket.
func (p page) entry(i int) (isBucket bool, key, value []byte) {
	place, size, more := p.places(i)
	both := slices.Clip(p[place:][:size+more])
	flags := binary.NativeEndian.Uint32(p[pageHeader+entrySize*i:])
	return flags&bucketFlag != 0, both[:size:size], both[size:]
}

// entries returns what a sound leaf has under its keys, to be gone through from the first to the last.
func (p page) entries() Entries {
	at := pageHeader + entrySize*p.count()
	return Entries{heads: p[pageHeader:at], rest: p[at:]}
}

// Entries are entries of a leaf, of which it is known that they lie one behind the other: there may be very many, and
// where each is need not be worked out again.
type Entries struct {
	heads, rest []byte // of those that are left
}

// More reports whether there are any.
func (l *Entries) More() bool { return len(l.heads) >= entrySize }

// Next returns the next one: the key with the value behind it, and the length of the key in bytes. They are valid during the
// visit.
func (l *Entries) Next() (isBucket bool, both []byte, key int) {
	e := (*[entrySize]byte)(l.heads)
	key = int(binary.NativeEndian.Uint32(e[8:]))
	n := key + int(binary.NativeEndian.Uint32(e[12:]))
	both = l.rest[:n:n]
	l.heads, l.rest = l.heads[entrySize:], l.rest[n:]
	return binary.NativeEndian.Uint32(e[:])&bucketFlag != 0, both, key
}
