package space

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
)

// Put brings back a record that was written to disk, in any order of records.
// It is an error if o is not in the pool, has a record already, if the
// record is neither Held nor Freed, if its Seq is above 2^63, or if the keys are indexed already. Put is for a new space: until
// [Space.Seal], only Put, Own, SetAside and Index may be called.
func (s *Space) Put(o addr.Offset, rec Record) error {
	text, f := textOf(rec.Name, rec.Ref)
	return s.put(o, &rec, text, f, nil)
}

// PutText is Put where name and reference come as bytes, which may change
// afterwards, and not with the record; packed says that the reference comes as
// [AppendID] makes it. They are kept in the memory, and so is the record.
func (s *Space) PutText(o addr.Offset, rec *Record, name, ref []byte, packed bool, mem *Memory) error {
	name = name[:min(len(name), maxName)]
	f := form(len(name))
	if packed {
		f |= isPacked
	}
	return s.put(o, rec, mem.text(name, ref), f, mem)
}

// Memory is what many records share that are brought back, also records of several
// spaces: of which there may be many with few records each. A piece of it lives as
// long as one of them. The zero Memory is empty.
type Memory struct {
	texts  strings.Builder
	short  []shortBlock
	blocks int // of which the last piece was made
}

const (
	// textsLen is how many bytes of texts share a piece of memory.
	textsLen = 8192
	// blocksLen is how many short blocks do, once there are as many: what a long block
	// is. A smaller piece with pointers loses a tenth to Go's allocator.
	blocksLen = longLen / shortLen
)

// text returns the two texts, one behind the other.
func (m *Memory) text(name, ref []byte) string {
	if n := len(name) + len(ref); m.texts.Cap()-m.texts.Len() < n {
		m.texts = strings.Builder{}
		m.texts.Grow(max(textsLen, n))
	}
	from := m.texts.Len()
	m.texts.Write(name)
	m.texts.Write(ref)
	return m.texts.String()[from:]
}

// block returns a zero block.
func (m *Memory) block() *shortBlock {
	if len(m.short) == 0 {
		m.blocks = min(max(2*m.blocks, 1), blocksLen)
		m.short = make([]shortBlock, m.blocks)
	}
	b := &m.short[0]
	m.short = m.short[1:]
	// Memory that is read before it was written to costs the kernel a page that it maps for that alone, and reading is
	// what whoever has a block by its address begins with.
	b[0] = record{}
	return b
}

// maxSeq is the highest Seq that is brought back: none that follows may wrap round, as queues
// are in their order.
const maxSeq = 1 << 63

// put brings back a record, in the memory if there is any.
func (s *Space) put(o addr.Offset, rec *Record, text string, f form, mem *Memory) error {
	if o >= s.end {
		return fmt.Errorf("space: record of offset %d in a pool of %d", o, s.end)
	}
	if rec.State != Held && rec.State != Freed {
		return fmt.Errorf("space: record of offset %d is %v, neither held nor freed", o, rec.State)
	}
	if rec.Seq > maxSeq {
		return fmt.Errorf("space: record of offset %d has Seq %d, which no pool has come to", o, rec.Seq)
	}
	if s.keys.buckets != 0 {
		return fmt.Errorf("space: record of offset %d comes after the keys were indexed", o)
	}
	p := s.pages.add(o)
	bit := uint64(1) << (o % pageLen)
	if p.used&bit != 0 {
		return fmt.Errorf("space: two records of offset %d", o)
	}
	if full, long := s.slab.full(); mem != nil && full && !long {
		s.slab.short = append(s.slab.short, mem.block())
	}
	i := s.create(o)
	r := s.slab.rec(i)
	r.setHolder(&rec.Holder, text, f)
	r.seq, r.since = rec.Seq, rec.Since
	*s.seq = max(*s.seq, rec.Seq)
	if rec.State == Held {
		p.held |= bit
		s.held++
	} else {
		s.freed++
	}
	if rec.Key != NoKey {
		s.keys.count++
	}
	if !s.mine.contains(o) {
		s.strays++
	}
	return nil
}

// Index indexes the keys of all records: no more can be put then. It is for who brings
// back one space after the other, as the records are in the processor's cache still.
func (s *Space) Index() { s.keys.build(&s.slab) }

// Seal ends the restoring: it indexes the keys if [Space.Index] has not, queues the freed addresses in the order in
// which they were freed, and forgets those that are not mine. Held addresses
// that are not mine stay, as strays.
func (s *Space) Seal() {
	if s.keys.buckets == 0 {
		s.Index()
	}
	if s.freed == 0 {
		return
	}
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
