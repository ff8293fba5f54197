package packed

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam/codec"
)

const (
	// blockSize is how many bytes of entries lie together, or one longer entry.
	blockSize = 64 << 10
	// align is what the place of an entry is a multiple of, in bytes.
	align = 4
	// perBlock is how many places a block has.
	perBlock = blockSize / align
	// maxWords is how many texts are kept once for all that share them: as many
	// as there are pools and kinds of holders, and what is behind them is kept in
	// each record.
	maxWords = 1 << 14
	// maxWord is the longest of them.
	maxWord = 1 << 10
)

// What the first byte of an entry tells.
const (
	removal   = 1 << iota // it has no value
	overtaken             // a later entry is of the same key
)

// Log is a list of changes of keys, in order of their numbers, and what each key
// is after the last one. The zero Log is empty. Not safe for concurrent use.
type Log struct {
	blocks  []block
	index   []uint32 // by hash of the key: 1 + the place of its last entry; 0: none
	keys    int      // in the index
	live    int      // those that have a value
	entries int
	last    uint64 // number of the last entry

	words   []string
	wordIDs map[string]uint32
	// wordless says that a key may be there whose word there was no room for.
	wordless bool
	seed     maphash.Seed
	scratch  []byte
}

// block is some entries one after the other, each at a place that is a multiple
// of align:
//
//	flags (1), number since the one before or since the block's base (varint),
//	word that the key begins with (varint), length and bytes of the rest of it,
//	and, unless it is a removal, length and bytes of the packed value
type block struct {
	base uint64
	buf  []byte
}

// Entry is one change. It is valid until the log is changed.
type Entry struct {
	Seq   uint64
	log   *Log
	flags byte
	word  uint32
	rest  []byte
	value []byte
	place uint32
}

// Overtaken reports whether a later entry is of the same key.
func (e *Entry) Overtaken() bool { return e.flags&overtaken != 0 }

// Removal reports whether it removed the key.
func (e *Entry) Removal() bool { return e.flags&removal != 0 }

// Key returns the key.
func (e *Entry) Key() string { return e.log.words[e.word] + string(e.rest) }

// AppendKey appends the key.
func (e *Entry) AppendKey(b []byte) []byte {
	return append(append(b, e.log.words[e.word]...), e.rest...)
}

// Below reports whether the key has a prefix.
func (e *Entry) Below(prefix string) bool {
	word := e.log.words[e.word]
	if len(prefix) <= len(word) {
		return strings.HasPrefix(word, prefix)
	}
	prefix, there := strings.CutPrefix(prefix, word)
	return there && len(prefix) <= len(e.rest) && string(e.rest[:len(prefix)]) == prefix
}

// AppendValue appends the value.
func (e *Entry) AppendValue(b []byte) []byte { return e.log.appendText(b, e.value) }

// Value returns a copy of the value, nil for a removal.
func (e *Entry) Value() []byte {
	if e.Removal() {
		return nil
	}
	return e.log.text(e.value)
}

// text returns a value in memory of its own, no more than it needs.
func (l *Log) text(packed []byte) []byte {
	l.scratch = l.appendText(l.scratch[:0], packed)
	return append(make([]byte, 0, len(l.scratch)), l.scratch...)
}

// Live is how many keys have a value.
func (l *Log) Live() int { return l.live }

// Len is how many entries there are.
func (l *Log) Len() int { return l.entries }

// Bytes is how much memory the entries take, in bytes, without the index.
func (l *Log) Bytes() int {
	total := 0
	for i := range l.blocks {
		total += cap(l.blocks[i].buf)
	}
	return total
}

// Has reports whether a key has a value.
func (l *Log) Has(key string) bool {
	e, there := l.find(key)
	return there && !e.Removal()
}

// Get returns a copy of the value of a key; nil if it has none.
func (l *Log) Get(key string) []byte {
	e, there := l.find(key)
	if !there {
		return nil
	}
	return e.Value()
}

// AppendValue appends the value of a key, and reports whether it has one.
func (l *Log) AppendValue(b []byte, key string) ([]byte, bool) {
	e, there := l.find(key)
	if !there || e.Removal() {
		return b, false
	}
	return l.appendText(b, e.value), true
}

// Is reports whether a key has that value.
func (l *Log) Is(key string, value []byte) bool {
	e, there := l.find(key)
	if !there || e.Removal() {
		return false
	}
	l.scratch = l.appendText(l.scratch[:0], e.value)
	return string(l.scratch) == string(value)
}

// Put adds a change, whose number must be higher than that of the last. A nil
// value removes the key.
func (l *Log) Put(seq uint64, key string, value []byte) {
	if l.words == nil {
		l.words, l.wordIDs, l.seed = []string{""}, map[string]uint32{"": 0}, maphash.MakeSeed()
	}
	cut := strings.LastIndexByte(key, '/') + 1
	word, known := l.word([]byte(key[:cut]))
	if !known && cut > 0 {
		l.wordless = true
	}
	if !known || l.isWordless(key) {
		word, cut = 0, 0
	}
	l.scratch = l.scratch[:0]
	if value != nil {
		l.scratch = l.appendValue(l.scratch, value)
	}
	l.add(seq, word, []byte(key[cut:]), l.scratch, value == nil)
}

// isWordless reports whether a key is there whole, since there was no room for its
// word when it came.
func (l *Log) isWordless(key string) bool {
	return l.wordless && l.keys > 0 && l.index[l.slot(0, []byte(key))] != 0
}

// word returns the number of a text that records share; false if it is not to
// be shared.
func (l *Log) word(text []byte) (id uint32, ok bool) {
	if id, ok = l.wordIDs[string(text)]; ok {
		return id, true
	}
	if len(l.words) >= maxWords || len(text) > maxWord {
		return 0, false
	}
	id = uint32(len(l.words)) // less than maxWords
	word := string(text)
	l.words, l.wordIDs[word] = append(l.words, word), id
	return id, true
}

// add adds an entry.
func (l *Log) add(seq uint64, word uint32, rest, value []byte, remove bool) {
	if 3*(l.keys+1) > 2*len(l.index) {
		l.grow()
	}
	size := 1 + 4*binary.MaxVarintLen32 + binary.MaxVarintLen64 + len(rest) + len(value)
	if n := len(l.blocks); n == 0 || len(l.blocks[n-1].buf)+size > blockSize {
		l.blocks = append(l.blocks, block{base: l.last})
		if n > 0 { // the first one grows: most logs are short
			l.blocks[n].buf = make([]byte, 0, max(blockSize, size))
		}
	}
	n := len(l.blocks) - 1
	b := &l.blocks[n]
	place := uint32(n*perBlock + len(b.buf)/align) // 16 GiB are more than there is
	before := b.base
	if len(b.buf) > 0 {
		before = l.last
	}
	flags := byte(0)
	if remove {
		flags = removal
	}
	b.buf = binary.AppendUvarint(append(b.buf, flags), seq-before)
	b.buf = codec.Bytes(codec.Uint(b.buf, uint64(word)), rest)
	if !remove {
		b.buf = codec.Bytes(b.buf, value)
	}
	for len(b.buf)%align != 0 {
		b.buf = append(b.buf, 0)
	}
	l.last = seq
	l.entries++
	slot := l.slot(word, rest)
	if at := l.index[slot]; at == 0 {
		l.keys++
	} else {
		old := l.flags(at - 1)
		if *old |= overtaken; *old&removal == 0 {
			l.live--
		}
	}
	l.index[slot] = place + 1
	if !remove {
		l.live++
	}
}

// flags returns the first byte of the entry at a place.
func (l *Log) flags(place uint32) *byte {
	return &l.blocks[place/perBlock].buf[place%perBlock*align]
}

// entry reads the entry at a place, but for its number, and returns its length.
func (l *Log) entry(e *Entry, place uint32) (since uint64, size int) {
	all := l.blocks[place/perBlock].buf[place%perBlock*align:]
	since, b := number(all[1:])
	word, b := number(b)
	n, b := number(b)
	e.log, e.place, e.flags, e.word, e.rest, b = l, place, all[0], uint32(word), b[:n], b[n:] // as it was written
	if e.value = nil; !e.Removal() {
		n, b = number(b)
		e.value, b = b[:n], b[n:]
	}
	size = len(all) - len(b)
	return since, (size + align - 1) / align * align
}

// slot returns where in the index a key is, or is to be.
func (l *Log) slot(word uint32, rest []byte) int {
	for at := l.hash(word, rest); ; at = (at + 1) % len(l.index) {
		if l.index[at] == 0 {
			return at
		}
		var e Entry
		if l.entry(&e, l.index[at]-1); e.word == word && string(e.rest) == string(rest) {
			return at
		}
	}
}

// hash returns where in the index it is looked for a key first.
func (l *Log) hash(word uint32, rest []byte) int {
	const odd = 0x9e3779b97f4a7c15
	sum := maphash.Bytes(l.seed, rest) ^ uint64(word)*odd
	return int(sum % uint64(len(l.index))) // no more than that is
}

func (l *Log) find(key string) (e Entry, there bool) {
	if l.keys == 0 {
		return e, false
	}
	cut := strings.LastIndexByte(key, '/') + 1
	word, known := l.wordIDs[key[:cut]]
	if !known || cut > maxWord || l.isWordless(key) {
		word, cut = 0, 0
	}
	at := l.index[l.slot(word, []byte(key[cut:]))]
	if at == 0 {
		return e, false
	}
	l.entry(&e, at-1)
	return e, true
}

// grow makes room in the index: half as much again.
func (l *Log) grow() {
	l.index = make([]uint32, max(8, len(l.index)+len(l.index)/2))
	for e := range l.After(0) {
		if !e.Overtaken() {
			l.index[l.slot(e.word, e.rest)] = e.place + 1
		}
	}
}

// After returns the entries behind a number, in order. The entry is the same one
// each time.
func (l *Log) After(seq uint64) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		first, _ := slices.BinarySearchFunc(l.blocks, seq, func(b block, seq uint64) int {
			if b.base <= seq {
				return -1
			}
			return 1
		})
		var e Entry
		for n := max(first-1, 0); n < len(l.blocks); n++ {
			e.Seq = l.blocks[n].base
			for at := 0; at < len(l.blocks[n].buf); {
				since, size := l.entry(&e, uint32(n*perBlock+at/align)) // as in add
				e.Seq += since
				at += size
				if e.Seq > seq && !yield(&e) {
					return
				}
			}
		}
	}
}

// Current returns of the entries behind a number those that say what their keys
// have now: neither overtaken, nor removals.
func (l *Log) Current(seq uint64) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for e := range l.After(seq) {
			if !e.Overtaken() && !e.Removal() && !yield(e) {
				return
			}
		}
	}
}

// Compact drops the entries that later ones have overtaken, and all removals but
// so many of the last, and returns the number of the last removal that it
// dropped; 0: none.
func (l *Log) Compact(removals int) (forgotten uint64) {
	if l.words == nil {
		return 0
	}
	from, removed := uint64(math.MaxUint64), l.keys-l.live
	if removed <= removals {
		from = 0
	} else {
		drop := removed - removals
		for e := range l.After(0) {
			if e.Removal() && !e.Overtaken() {
				if drop == 0 {
					from = e.Seq
					break
				}
				drop--
				forgotten = e.Seq
			}
		}
	}
	old := *l
	*l = Log{words: []string{""}, wordIDs: map[string]uint32{"": 0}, seed: old.seed, wordless: old.wordless}
	if kept := old.live + min(removed, removals); kept > 0 {
		l.index = make([]uint32, kept+kept*3/4+8)
	}
	done := uint32(0)
	ids := make([]uint32, len(old.words)) // those that words have now; 0: none yet
	again := func(id uint32) uint32 {
		if id > 0 && ids[id] == 0 {
			ids[id], _ = l.word([]byte(old.words[id])) // there are no more than there were
		}
		return ids[id]
	}
	for e := range old.After(0) {
		if n := e.place / perBlock; n > done { // what has been read may go
			old.blocks[done].buf, done = nil, n
		}
		if e.Overtaken() || e.Removal() && (e.Seq < from || removals == 0) {
			continue
		}
		value := e.value
		if !e.Removal() && value[0] == formHolder {
			head, rest := number(value[2:])
			l.scratch = binary.AppendUvarint(append(l.scratch[:0], value[:2]...), uint64(again(uint32(head)))) // as it was written
			l.scratch = append(l.scratch, rest...)
			value = l.scratch
		}
		l.add(e.Seq, again(e.word), e.rest, value, e.Removal())
	}
	return forgotten
}
