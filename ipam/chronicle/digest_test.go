package chronicle_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// decoded returns a copy of a state, of which nothing is hashed yet.
func decoded(tb testing.TB, s *chronicle.State) *chronicle.State {
	tb.Helper()
	again, err := chronicle.DecodeState(s.Encode())
	if err != nil {
		tb.Fatal(err)
	}
	return again
}

// Each bit of an encoding that still is one when it is turned makes another
// state, with another digest.
func TestDigestShowsEachBit(t *testing.T) {
	enc := richState(t).Encode()
	digests := map[uint64][]byte{}
	for i := range len(enc) * 8 {
		other := bytes.Clone(enc)
		other[i/8] ^= 1 << (i % 8)
		s, err := chronicle.DecodeState(other)
		if err != nil {
			continue
		}
		if same, ok := digests[s.Digest()]; ok {
			t.Errorf("%x and %x have one digest", same, other)
		}
		digests[s.Digest()] = other
	}
	if len(digests) < len(enc) {
		t.Errorf("only %d of %d are states", len(digests), len(enc)*8)
	}
	if _, ok := digests[richState(t).Digest()]; ok {
		t.Error("one of them has the digest of the state")
	}
}

// Each field counts, also those whose other values make no state.
func TestDigestShowsEachField(t *testing.T) {
	rich := richState(t)
	digests := map[uint64]string{rich.Digest(): "the state"}
	for name, change := range map[string]func(s *chronicle.State, p *chronicle.Pool){
		"slot":               func(s *chronicle.State, _ *chronicle.Pool) { s.Slot++ },
		"cluster":            func(s *chronicle.State, _ *chronicle.Pool) { s.Cluster[15]++ },
		"level":              func(s *chronicle.State, _ *chronicle.Pool) { s.Level++ },
		"order of roster":    func(s *chronicle.State, _ *chronicle.Pool) { s.Roster[0], s.Roster[1] = s.Roster[1], s.Roster[0] },
		"member":             func(s *chronicle.State, _ *chronicle.Pool) { s.Roster = s.Roster[:1] },
		"peer":               func(s *chronicle.State, _ *chronicle.Pool) { s.Roster[1].ID[15]++ },
		"name of a peer":     func(s *chronicle.State, _ *chronicle.Pool) { s.Roster[1].Name += "x" },
		"boot":               func(s *chronicle.State, _ *chronicle.Pool) { s.Roster[1].Boot++ },
		"machine":            func(s *chronicle.State, _ *chronicle.Pool) { s.Roster[1].Machine++ },
		"phase":              func(s *chronicle.State, _ *chronicle.Pool) { s.Roster[1].Phase++ },
		"evicted":            func(s *chronicle.State, _ *chronicle.Pool) { s.Former[0].Evicted++ },
		"forgotten":          func(s *chronicle.State, _ *chronicle.Pool) { s.Former[0].Forgotten = true },
		"former peer":        func(s *chronicle.State, _ *chronicle.Pool) { s.Former[0].ID[0]++ },
		"none evicted":       func(s *chronicle.State, _ *chronicle.Pool) { s.Former = nil },
		"a pool less":        func(s *chronicle.State, _ *chronicle.Pool) { s.Pools = s.Pools[:1] },
		"slot of a pool":     func(_ *chronicle.State, p *chronicle.Pool) { p.Key.Slot++ },
		"place of a pool":    func(_ *chronicle.State, p *chronicle.Pool) { p.Key.Place++ },
		"subnet":             func(_ *chronicle.State, p *chronicle.Pool) { p.CIDR = netip.MustParsePrefix("10.51.0.0/24") },
		"name of a pool":     func(_ *chronicle.State, p *chronicle.Pool) { p.Name = "" },
		"origin":             func(_ *chronicle.State, p *chronicle.Pool) { p.Origin++ },
		"user":               func(_ *chronicle.State, p *chronicle.Pool) { p.Users = p.Users[1:] },
		"reservation":        func(_ *chronicle.State, p *chronicle.Pool) { p.Reserved = p.Reserved[1:] },
		"kind":               func(_ *chronicle.State, p *chronicle.Pool) { p.Reserved[0].Kind++ },
		"note":               func(_ *chronicle.State, p *chronicle.Pool) { p.Reserved[0].Note = "" },
		"range":              func(_ *chronicle.State, p *chronicle.Pool) { p.Reserved[0].Range.End++ },
		"owner":              func(_ *chronicle.State, p *chronicle.Pool) { p.Ring.Assign(addr.One(0), b, 2) },
		"version":            func(_ *chronicle.State, p *chronicle.Pool) { p.Ring.Assign(addr.One(0), a, 99) },
		"where a range ends": func(_ *chronicle.State, p *chronicle.Pool) { p.Ring.Assign(span(0, 2), b, 2) },
		"rings of two pools": func(s *chronicle.State, p *chronicle.Pool) { p.Ring, s.Pools[1].Ring = s.Pools[1].Ring, p.Ring },
		"number": func(s *chronicle.State, _ *chronicle.Pool) {
			s.Apply([]chronicle.Command{{Author: a, Number: 1 << 30}})
			s.Slot--
		},
		"number of another": func(s *chronicle.State, _ *chronicle.Pool) {
			s.Apply([]chronicle.Command{{Author: b, Number: 1 << 30}})
			s.Slot--
		},
	} {
		s := decoded(t, rich)
		if s.Digest() != rich.Digest() {
			t.Fatal("equal states have different digests")
		}
		s = decoded(t, rich)
		change(s, s.Pools[0])
		if other, ok := digests[s.Digest()]; ok {
			t.Errorf("with another %s it has the digest of %s", name, other)
		}
		digests[s.Digest()] = "another " + name
	}
}

// After a slot that moves a range nothing is hashed but what that changed: all
// else may be something else. [chronicle.State.Check] finds that.
func TestDigestHashesWhatChanges(t *testing.T) {
	for name, spoil := range map[string]func(*chronicle.State){
		"a member":            func(s *chronicle.State) { s.Roster[50].Boot++ },
		"a pool":              func(s *chronicle.State) { s.Pools[7].Origin++ },
		"the pool it is in":   func(s *chronicle.State) { s.Pools[0].Name = "x" },
		"a user of that pool": func(s *chronicle.State) { s.Pools[0].Users = nil },
	} {
		s, want := divided(t, 1_000, 20), divided(t, 1_000, 20)
		if s.Digest() != want.Digest() {
			t.Fatal("equal states have different digests")
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(s)
		if err := s.Check(); err == nil {
			t.Errorf("%s: a digest of something else is not found", name)
		}
		give := chronicle.Give{Pool: s.Pools[0].Key, Range: span(8, 9), To: numbered(1)}
		for _, s := range []*chronicle.State{s, want} {
			if out := s.Apply([]chronicle.Command{{Author: numbered(0), Number: 1 << 40, Action: give}}); out[0].Refused != "" {
				t.Fatal(out[0].Refused)
			}
		}
		if s.Digest() != want.Digest() {
			t.Errorf("%s was hashed again", name)
		}
		if n := testing.AllocsPerRun(10, func() { s.Slot++; s.Digest() }); n > 0 {
			t.Errorf("a digest allocates %v times", n)
		}
	}
}

// Whatever was asked for its digest when, a state has the digest of what is in
// it, and none that it had before.
func TestDigestIsOfTheContent(t *testing.T) {
	randomHistory(t, func(seed uint64, s, replica *chronicle.State) {
		fresh := decoded(t, s).Digest()
		if got := s.Digest(); got != fresh {
			t.Fatalf("seed %d, slot %d: digest %x, of what was decoded %x", seed, s.Slot, got, fresh)
		}
		if replica.Slot%7 == 0 && replica.Digest() != fresh {
			t.Fatalf("seed %d, slot %d: a replica has another digest", seed, s.Slot)
		}
		if err := replica.Check(); err != nil {
			t.Fatalf("seed %d, slot %d: %v", seed, s.Slot, err)
		}
	})
}
