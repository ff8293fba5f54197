package persist

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// A record that one bit makes whole was whole, whichever bit it is.
func TestRotten(t *testing.T) {
	for name, tt := range map[string]struct {
		value int
		turn  bool
	}{
		"short":                     {300, false},
		"the first of a segment":    {300, true},
		"longer than some sectors":  {5000, false},
		"of almost a whole segment": {testSegment - 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, hastyConfig(dbPath(t)))
			for n := range uint64(2) { // the first makes the log
				if err := commitStep(s, n+1); err != nil {
					t.Fatal(err)
				}
			}
			if tt.turn {
				if err := s.turn(); err != nil {
					t.Fatal(err)
				}
			}
			var e entries
			value := make([]byte, tt.value)
			for i := range value {
				value[i] = byte(rand.Uint32())
			}
			if err := e.put("b", []byte("k"), value); err != nil {
				t.Fatal(err)
			}
			current, at, number := s.wal.current, s.wal.end, s.wal.number
			if err := s.wal.append(e.encoded); err != nil {
				t.Fatal(err)
			}
			image, err := readWALImage(s.wal.f, s.wal.id)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := image.unapplied(number); err != nil || len(got) != 1 {
				t.Fatalf("got %d records, %v, want one", len(got), err)
			}
			record := image.segments[current][at:]
			for bit := range (recordHeader + len(e.encoded)) * 8 {
				if tt.value > 1000 && bit > 200 && rand.IntN(100) > 0 {
					continue
				}
				record[bit/8] ^= 1 << (bit % 8)
				if got, err := image.unapplied(number); !errors.Is(err, ErrDamaged) {
					t.Fatalf("bit %d: got %d records, %v, want ErrDamaged", bit, len(got), err)
				}
				record[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// A torn record that is a bit away from the whole one is none, as what ends it is not there.
func TestTornByOneBit(t *testing.T) {
	s := mustOpen(t, hastyConfig(dbPath(t)))
	if err := commitStep(s, 1); err != nil {
		t.Fatal(err)
	}
	var e entries
	const header = 1 + 1 + 1 + 1 + 2                         // lengths and names
	value := make([]byte, recordAlign-recordHeader-header+1) // one byte goes to the second sector
	value[len(value)-1] = 1
	if err := e.put("b", []byte("k"), value); err != nil {
		t.Fatal(err)
	}
	current, at := s.wal.current, s.wal.end
	if err := s.wal.append(e.encoded); err != nil {
		t.Fatal(err)
	}
	image, err := readWALImage(s.wal.f, s.wal.id)
	if err != nil {
		t.Fatal(err)
	}
	second := image.segments[current][at+recordAlign : at+2*recordAlign]
	if second[0] != 1 || second[1] != 0 || s.wal.end != at+2*recordAlign {
		t.Fatalf("the second sector begins with %x", second[:8])
	}
	clear(second)
	if got, err := image.unapplied(0); err != nil || len(got) != 0 {
		t.Errorf("got %d records, %v, want none", len(got), err)
	}
}
