package identity

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/table"
)

const (
	// First is the first number that is given.
	First = 256
	// MaxSets is how many sets there are at most.
	MaxSets = 16_384
	// MaxBytes is how long the texts of all sets are together at most: a state travels as one message.
	MaxBytes = 4 << 20
	// MaxNumber is the highest number: programs read it as a number of JSON.
	MaxNumber = 1<<53 - 1
	// leap is how many numbers a recovered cluster leaves out at least: see [Registry.Leap].
	leap = 1 << 20
)

// Set is a label set with its number.
type Set struct {
	Number uint64
	Text   string // see [Text]
}

// Registry is all sets that have a number. The zero Registry has none.
type Registry struct {
	Last uint64 // the highest number that was ever given; 0: none was
	Sets []Set  // in order of their numbers; none of those that are there is ever changed, see [Registry.View]

	numbers map[string]uint64 // by text
	bytes   int               // of all texts
	sum     uint64            // of the hashes of all sets
}

// Number returns the number of a set, 0 if it has none.
func (r *Registry) Number(text string) uint64 { return r.numbers[text] }

// Bytes returns how long the texts of all sets are together.
func (r *Registry) Bytes() int { return r.bytes }

// View returns the highest number and the sets as they are now. It copies nothing, and stays as it is whatever becomes of
// the registry, so that another goroutine may read it.
func (r *Registry) View() Registry { return Registry{Last: r.Last, Sets: slices.Clip(r.Sets)} }

// Refuses says why a set gets no number, nothing if it has one or gets one.
func (r *Registry) Refuses(text string) string {
	_, valid := Labels(text)
	switch {
	case len(text) > MaxText:
		return fmt.Sprintf("its labels take %d bytes, and at most %d count", len(text), MaxText)
	case !valid:
		return "that is no label set"
	case r.numbers[text] != 0:
		return ""
	}
	return Full(len(r.Sets), r.bytes, text)
}

// Full says why there is no room for one more set beside so many sets whose texts take so many bytes, nothing if there is.
func Full(sets, bytes int, text string) string {
	switch {
	case sets >= MaxSets:
		return fmt.Sprintf("there are %d label sets with an identity, and no more can have one", sets)
	case bytes+len(text) > MaxBytes:
		return fmt.Sprintf("the label sets with an identity take %d bytes together, and at most %d can", bytes, MaxBytes)
	}
	return ""
}

// Identify gives a set the next number, which it returns. A set that has a number keeps that one (R69).
func (r *Registry) Identify(text string) (number uint64, refused string) {
	if refused = r.Refuses(text); refused != "" {
		return 0, refused
	}
	if n := r.numbers[text]; n != 0 {
		return n, "the label set has a number"
	}
	if r.Last >= MaxNumber {
		return 0, "no number is left"
	}
	r.Last = max(r.Last, First-1) + 1 // never one that was given before, also if its set is gone (R68)
	r.add(Set{r.Last, text})
	return r.Last, ""
}

// Collect removes the sets with the numbers. It reports false if there is none of them.
func (r *Registry) Collect(numbers []uint64) bool {
	had := len(r.Sets)
	gone := make(map[uint64]bool, len(numbers))
	for _, n := range numbers {
		gone[n] = true
	}
	kept := make([]Set, 0, had) // and not in place: who has a view reads the others
	for _, s := range r.Sets {
		if !gone[s.Number] {
			kept = append(kept, s)
			continue
		}
		delete(r.numbers, s.Text)
		r.bytes -= len(s.Text)
		r.sum -= s.hash()
	}
	r.Sets = kept
	return len(kept) < had
}

// Leap leaves out at least a million numbers. A peer that recovers a cluster alone does not know which numbers the lost
// majority has given since (R70).
func (r *Registry) Leap() { r.Last = min((r.Last/leap+2)*leap-1, MaxNumber) }

// Missing returns, in the same order, the texts that could have a number and have none, each once.
func (r *Registry) Missing(texts []string) (out []string) {
	for _, text := range texts {
		if r.numbers[text] == 0 && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// Live returns those of the numbers that a set has.
func (r *Registry) Live(numbers []uint64) (out []uint64) {
	for _, n := range numbers {
		if _, there := slices.BinarySearchFunc(r.Sets, n, func(s Set, n uint64) int { return compare(s.Number, n) }); there {
			out = append(out, n)
		}
	}
	return out
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (r *Registry) add(s Set) {
	if r.numbers == nil {
		r.numbers = map[string]uint64{}
	}
	r.Sets = append(r.Sets, s)
	r.numbers[s.Text] = s.Number
	r.bytes += len(s.Text)
	r.sum += s.hash()
}

// Touch has the registry follow its fields. Who changes them by other means than its methods, as tests do, has to call it.
func (r *Registry) Touch() {
	sets := r.Sets
	*r = Registry{Last: r.Last}
	for _, s := range sets {
		r.add(s)
	}
}

func (s Set) hash() uint64 { return table.Hash(s.Number, 0, []byte(s.Text)) }

// Hash returns a hash of the registry, 0 if no number was ever given.
func (r *Registry) Hash() uint64 {
	if r.Last == 0 {
		return 0
	}
	return table.Hash(r.Last, r.sum, nil) | 1
}

// Append appends the registry: the highest number, how many sets there are, and for each how far its number is from the
// one before, and its text. It appends nothing if no number was ever given.
func (r *Registry) Append(b []byte) []byte {
	if r.Last == 0 {
		return b
	}
	b = codec.Uint(codec.Uint(b, r.Last), uint64(len(r.Sets)))
	before := uint64(0)
	for _, s := range r.Sets {
		b = codec.Bytes(codec.Uint(b, s.Number-before), s.Text)
		before = s.Number
	}
	return b
}

// Read reads what [Registry.Append] wrote at the end of a record.
func Read(in *codec.Reader) (r Registry) {
	if in.Err() != nil || in.Rest() == 0 {
		return r
	}
	if r.Last = in.Uint("highest number of a label set"); r.Last == 0 {
		if in.Rest() == 0 { // else something follows that is no label set
			in.Fail("highest number of a label set")
		}
		return Registry{}
	}
	number := uint64(0)
	for range in.Count("number of label sets", 3) {
		step := in.Uint("number of a label set")
		number += step
		text := string(in.Bytes("label set", MaxText))
		if _, ok := Labels(text); !ok || step == 0 || number < step {
			in.Fail("number of a label set")
		}
		if in.Err() != nil {
			return Registry{}
		}
		r.add(Set{number, text})
	}
	if in.Err() == nil && r.Check() != nil {
		in.Fail("label sets")
	}
	return r
}

// Check reports whatever contradicts what a registry must be.
func (r *Registry) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	last, bytes, sum := uint64(First-1), 0, uint64(0)
	seen := make(map[string]bool, len(r.Sets))
	for _, s := range r.Sets {
		if s.Number <= last {
			bad("number %d of a label set stands behind %d", s.Number, last)
		}
		if seen[s.Text] || r.numbers[s.Text] != s.Number {
			bad("label set %s has two numbers, or is not found", s.Text)
		}
		seen[s.Text], last = true, s.Number
		bytes, sum = bytes+len(s.Text), sum+s.hash()
	}
	switch {
	case r.Last != 0 && r.Last < last, r.Last == 0 && len(r.Sets) > 0, r.Last > MaxNumber:
		bad("the highest number of a label set is said to be %d, and one has %d", r.Last, last)
	case len(r.numbers) != len(r.Sets) || bytes != r.bytes || sum != r.sum:
		bad("the %d label sets are counted wrongly", len(r.Sets))
	case len(r.Sets) > MaxSets || bytes > MaxBytes:
		bad("there are %d label sets with %d bytes", len(r.Sets), bytes)
	}
	return errors.Join(errs...)
}
