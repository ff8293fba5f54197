package space

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
)

// Put brings back a record that was written to disk, in any order of records.
// It is an error if o is not in the pool, has a record already, or if the
// record is neither Held nor Freed. Put is for a new space: until
// [Space.Seal], only Put, Own and SetAside may be called.
func (s *Space) Put(o addr.Offset, rec Record) error {
	text, f := textOf(rec.Name, rec.Ref)
	return s.put(o, &rec, text, f)
}

// PutText is Put where name and reference come as bytes, which may change
// afterwards, and not with the record; packed says that the reference comes as
// [AppendID] makes it. They are kept in texts.
func (s *Space) PutText(o addr.Offset, rec *Record, name, ref []byte, packed bool, texts *Texts) error {
	name = name[:min(len(name), maxName)]
	f := form(len(name))
	if packed {
		f |= isPacked
	}
	return s.put(o, rec, texts.add(name, ref), f)
}

// Texts is memory that the texts of many records share, also of records of
// several spaces: of which there may be many with few records each. A piece of
// it lives as long as one of them. The zero Texts is empty.
type Texts struct{ piece strings.Builder }

// textsLen is how many bytes of texts share a piece of memory.
const textsLen = 8192

// add returns the two texts, one behind the other.
func (t *Texts) add(name, ref []byte) string {
	if n := len(name) + len(ref); t.piece.Cap()-t.piece.Len() < n {
		t.piece = strings.Builder{}
		t.piece.Grow(max(textsLen, n))
	}
	from := t.piece.Len()
	t.piece.Write(name)
	t.piece.Write(ref)
	return t.piece.String()[from:]
}

func (s *Space) put(o addr.Offset, rec *Record, text string, f form) error {
	switch {
	case o >= s.end:
		return fmt.Errorf("space: record of offset %d in a pool of %d", o, s.end)
	case rec.State != Held && rec.State != Freed:
		return fmt.Errorf("space: record of offset %d is %v, neither held nor freed", o, rec.State)
	case s.pages.find(o).state(o) != Unused:
		return fmt.Errorf("space: two records of offset %d", o)
	}
	i := s.create(o)
	r := s.slab.rec(i)
	*s.slab.text(i) = text
	r.setHolder(&rec.Holder, f)
	r.seq, r.since = rec.Seq, rec.Since
	s.seq = max(s.seq, rec.Seq)
	if rec.State == Held {
		s.page(r).held |= 1 << (o % pageLen)
		s.held++
	} else {
		s.freed++
	}
	if !s.mine.contains(o) {
		s.strays++
	}
	return nil
}

// Seal ends the restoring: it indexes the keys, queues the freed addresses in the order in
// which they were freed, and forgets those that are not mine. Held addresses
// that are not mine stay, as strays.
func (s *Space) Seal() {
	s.keys.build(&s.slab)
	var list []uint32
	for p, w := range s.freedIn(s.pool()) {
		for ; w != 0; w &= w - 1 {
			i := p.rec[bits.TrailingZeros64(w)]
			switch o := s.offset(i); {
			case !s.mine.contains(o):
				s.strays--
				s.erase(i)
			case !s.aside.contains(o) && !s.slab.rec(i).queued():
				list = append(list, i)
			}
		}
	}
	s.requeue(list)
}
