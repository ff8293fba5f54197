package effect_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// putBuffer writes a record as the hot path does.
func putBuffer(w *effect.Writer, bucket, key, value string) {
	b := append(w.Buffer(), key...)
	split := len(b)
	w.PutBuffer(bucket, append(b, value...), split)
}

// Records stand in the order in which they were written, however they were. Only that of a key that is deleted
// has no value; an empty value is one.
func TestRecordsInOrder(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	for range 3 {
		w.Reset(time.Time{})
		w.Put("a", "first", []byte("1"))
		putBuffer(&w, "b", "second", "22")
		w.Delete("a", "first")
		w.Put("a", "empty", nil)
		putBuffer(&w, "b", "bare", "")
		w.Delete("b", "second")
		want := []effect.Record{
			{Bucket: "a", Key: []byte("first"), Value: []byte("1")},
			{Bucket: "b", Key: []byte("second"), Value: []byte("22")},
			{Bucket: "a", Key: []byte("first")},
			{Bucket: "a", Key: []byte("empty"), Value: []byte{}},
			{Bucket: "b", Key: []byte("bare"), Value: []byte{}},
			{Bucket: "b", Key: []byte("second")},
		}
		if diff := cmp.Diff(want, out.Save); diff != "" {
			t.Fatalf("records (-want +got):\n%s", diff)
		}
	}
}

// The bytes of a record stay what they are until the next step, however much is written behind it, and whoever
// appends to them.
func TestRecordsKeepTheirBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var out effect.Out
	w := effect.NewWriter(&out)
	for step := range 50 {
		w.Reset(time.Time{})
		var want []effect.Record
		for n := range r.IntN(40) {
			rec := effect.Record{Bucket: "b", Key: fmt.Appendf(nil, "%d-%d", step, n)}
			switch r.IntN(3) {
			case 0:
				rec.Value = bytes.Repeat([]byte{byte(n)}, r.IntN(300))
				w.Put("b", string(rec.Key), rec.Value)
			case 1:
				rec.Value = bytes.Repeat([]byte{byte(n)}, 1+r.IntN(300))
				putBuffer(&w, "b", string(rec.Key), string(rec.Value))
			default:
				w.Delete("b", string(rec.Key))
			}
			want = append(want, rec)
			last := out.Save[len(out.Save)-1]
			_, _ = append(last.Key, "no more"...), append(last.Value, "no more"...)
		}
		if diff := cmp.Diff(want, slices.Clone(out.Save)); len(want) > 0 && diff != "" {
			t.Fatalf("step %d (-want +got):\n%s", step, diff)
		}
	}
}

// A step begins with nothing. The frames of the last one stay what they were, as they may still be on their way.
func TestReset(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	step := func(slot uint64) {
		w.Reset(time.Time{})
		w.Put("b", "k", []byte("v"))
		*w.Note() = effect.Note{Kind: effect.NoteFounded}
		w.Send(peer.ID{2}, wire.Pull{After: slot})
		w.Post(wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: slot})
		w.Beat(wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: slot})
		w.WakeAt(time.Unix(int64(slot), 0))
	}
	step(1)
	frame, beat := out.Send[0].Frame, out.Beat
	sent, shown := bytes.Clone(frame), bytes.Clone(beat)
	step(2)
	if !bytes.Equal(frame, sent) || !bytes.Equal(beat, shown) {
		t.Error("a step has overwritten a frame of the last one")
	}
	w.Reset(time.Time{})
	if n := len(out.Save) + len(out.Send) + len(out.Note); n > 0 || out.Beat != nil || !out.WakeAt.IsZero() {
		t.Errorf("a step begins with %+v", out)
	}
}

// All frames of a step have the header of its end, each with its own receiver, in the order in which they were sent.
func TestPost(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	for slot := uint64(7); slot < 9; slot++ {
		w.Reset(time.Time{})
		if w.Unposted() {
			t.Error("before anything was sent something waits")
		}
		w.Send(peer.ID{2}, wire.Pull{After: 3})
		w.Send(peer.None, wire.Beat{})
		w.Send(peer.ID{3}, wire.UsedUp{})
		if !w.Unposted() || len(out.Send) > 0 {
			t.Error("what is sent does not wait for its header")
		}
		w.Post(wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: slot})
		if w.Unposted() {
			t.Error("something waits behind the post")
		}
		want := []wire.Frame{
			{Header: wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: slot, To: peer.ID{2}}, Body: wire.Pull{After: 3}},
			{Header: wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: slot}, Body: wire.Beat{}},
			{Header: wire.Header{From: peer.ID{1}, Boot: 1, Cluster: [16]byte{9}, Slot: slot, To: peer.ID{3}}, Body: wire.UsedUp{}},
		}
		var got []wire.Frame
		for _, s := range out.Send {
			f, err := wire.Decode(s.Frame)
			if err != nil || f.To != s.To {
				t.Fatalf("to %v: %+v, %v", s.To, f, err)
			}
			got = append(got, *f)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	}
}

// The earliest of all times that were asked for counts.
func TestWakeAt(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	for _, s := range []int64{50, 70, 30, 40} {
		w.WakeAt(time.Unix(s, 0))
	}
	if got := out.WakeAt.Unix(); got != 30 {
		t.Errorf("wakes at %d", got)
	}
}

// Once its memory has the size of a step, a writer takes none any more.
func TestNoAllocations(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	value := make([]byte, 100)
	at := time.Unix(1, 0)
	if n := testing.AllocsPerRun(100, func() {
		w.Reset(time.Time{})
		for i := range 20 {
			w.Put("b", "key", value[:5*i])
			putBuffer(&w, "b", "another key", "value")
			w.Delete("b", "key")
			w.Note().Kind = effect.NoteFreed
		}
		w.WakeAt(at)
	}); n > 0 {
		t.Errorf("%v allocations in a step", n)
	}
}

// All of a step has the time at which the step began.
func TestNow(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	for _, at := range []time.Time{time.Unix(40, 0), time.Unix(30, 0)} {
		w.Reset(at)
		w.WakeAt(time.Unix(50, 0))
		if !w.Now().Equal(at) {
			t.Errorf("in a step at %v it is %v", at, w.Now())
		}
	}
}

// A time that lies ahead is one from before somebody set the clock back.
func TestPassed(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	at := time.Unix(100, 0)
	for after, passed := range map[time.Duration]bool{499 * time.Millisecond: false, 500 * time.Millisecond: true, -1: true, 0: false} {
		if w.Reset(at.Add(after)); w.Passed(500*time.Millisecond, at) != passed {
			t.Errorf("after %v: passed is %v", after, !passed)
		}
	}
}
