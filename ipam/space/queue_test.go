package space

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// TestQueue compares a queue with a sorted list through many comings and goings, with far more records than may leave
// their turns behind.
func TestQueue(t *testing.T) {
	const records, steps = 600, 30_000
	rng := rand.New(rand.NewPCG(1, 1))
	bySeq := func(a, b turn) int { return cmp.Compare(a.seq, b.seq) }
	var q queue
	var in, out []turn // in it, in order; and what has left
	seq, most := uint64(0), 0
	leave := func(n int) {
		q.remove(in[n])
		out = append(out, in[n])
		in = slices.Delete(in, n, n+1)
	}
	for step := range steps {
		switch op := rng.IntN(10); {
		case len(in) > 0 && op < 3: // the first leaves
			leave(0)
		case len(in) > 0 && (op < 5 || len(in) == records): // any
			leave(rng.IntN(len(in)))
		case len(out) > 0 && op == 5: // one comes back
			n := rng.IntN(len(out))
			back := out[n]
			out = slices.Delete(out, n, n+1)
			q.insert(q.search(back.seq), back)
			at, _ := slices.BinarySearchFunc(in, back, bySeq)
			in = slices.Insert(in, at, back)
		case len(in) > 3 && op == 6 && step%2 == 0: // the first leave, and come back in that order
			some := slices.Clone(in[:2+rng.IntN(len(in)-2)])
			for _, t := range some {
				q.remove(t)
			}
			for _, t := range some {
				q.insert(q.search(t.seq), t)
			}
		case len(out) > 0 && op == 6 && step%50 == 1: // many do
			n := rng.IntN(min(len(out), records-len(in)) + 1)
			slices.SortFunc(out[:n], bySeq)
			q.merge(out[:n], bySeq)
			in = append(in, out[:n]...)
			slices.SortFunc(in, bySeq)
			out = slices.Delete(out, 0, n)
		default:
			seq++
			in = append(in, turn{seq, uint32(seq)})
			q.push(turn{seq, uint32(seq)})
		}
		if len(out) > records {
			out = slices.Delete(out, 0, records/2)
		}
		var want, back []uint32
		for _, i := range in {
			want = append(want, i.rec)
		}
		if got := slices.Collect(q.all()); !slices.Equal(got, want) {
			t.Fatalf("step %d: the queue has %d, want %d", step, got, want)
		}
		back = slices.Collect(q.latest())
		slices.Reverse(back)
		if !slices.Equal(back, want) || q.live != len(want) {
			t.Fatalf("step %d: from the end it has %d, counted %d, want %d", step, back, q.live, want)
		}
		if head := q.head(); len(want) == 0 && head != none || len(want) > 0 && head != want[0] {
			t.Fatalf("step %d: the first is %d, want %d", step, head, want)
		}
		if turns := len(q.list) - q.first; turns > 2*len(want)+minQueue {
			t.Fatalf("step %d: the queue has %d turns of %d records", step, turns, len(want))
		}
		most = max(most, cap(q.list))
	}
	if most > 4*records+minQueue {
		t.Errorf("a queue of at most %d records had room for %d", records, most)
	}
	if got := testing.AllocsPerRun(10*records, func() {
		seq++
		q.push(turn{seq, 1})
		q.remove(turn{q.list[q.first].seq, q.head()})
	}); got != 0 {
		t.Errorf("one comes and one goes: %v allocations, want 0", got)
	}
}

// Grants that are taken back in the order in which they were made take no memory, however many there are.
func TestQueueOfGrantsTakenBack(t *testing.T) {
	var q queue
	for seq := range uint64(100) {
		q.push(turn{seq + 1, uint32(seq + 1)})
	}
	room := cap(q.list)
	for range 1000 {
		some := slices.Clone(q.list[q.first : q.first+8])
		for _, t := range some {
			q.remove(t)
		}
		for _, t := range some {
			q.insert(q.search(t.seq), t)
		}
	}
	if q.live != 100 || cap(q.list) > room {
		t.Errorf("%d records with room for %d, had room for %d", q.live, cap(q.list), room)
	}
}

// A queue that was long once does not keep the memory for that, nor does a space of which the first queue was cut.
func TestQueueIsGivenBack(t *testing.T) {
	const n = 10_000
	s := New(n)
	s.Own(s.pool())
	now := time.Unix(1, 0)
	for range n {
		s.take(s.pool(), others(0), now, 0)
	}
	for o := range addr.Offset(n) {
		s.free(o, now)
	}
	s.take(addr.Range{Start: n / 2, End: n}, others(0), now, 0)
	if s.first.segments[0].list != nil {
		t.Error("the queue as it was before it was cut is there still")
	}
	for range n - 1 {
		s.take(s.pool(), others(0), now, 0)
	}
	for _, q := range s.segments {
		if q.live != 0 || cap(q.list) > 8*minQueue {
			t.Errorf("a queue of %d has room for %d", q.live, cap(q.list))
		}
	}
}

// A sequence number that no pool has come to is refused: those that follow would wrap round.
func TestQueueOfHighestSeq(t *testing.T) {
	s := New(16)
	if err := s.Put(1, Record{State: Freed, Seq: maxSeq + 1, Holder: Holder{Kind: Container}}); err == nil {
		t.Error("a record with a Seq above 2^63 was taken")
	}
	if err := s.Put(1, Record{State: Freed, Seq: maxSeq, Holder: Holder{Kind: Container}}); err != nil {
		t.Error(err)
	}
}

// Of records with one Seq, as only a spoiled disk can have them, each comes back to where it was.
func TestQueueOfOneSeq(t *testing.T) {
	s := New(16)
	s.Own(addr.Range{End: 16})
	for _, o := range []addr.Offset{3, 1, 2, 4} {
		if err := s.Put(o, Record{State: Freed, Seq: 7, Since: 1, Holder: Holder{Kind: Container, Name: "web", Key: Key(o)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Seal()
	for _, o := range []addr.Offset{2, 3, 1, 4} {
		g, out := s.claim(o, others(1), time.Unix(1, 0))
		if out != Taken {
			t.Fatal(out)
		}
		if _, changed := s.Withdraw(o, g.Seq, &g.before); !changed {
			t.Fatalf("%d is not withdrawn", o)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		var got []uint32
		for i := range s.segments[0].all() {
			got = append(got, uint32(s.offset(i)))
		}
		if want := []uint32{1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("after %d came back the queue is %d, want %d", o, got, want)
		}
	}
}
