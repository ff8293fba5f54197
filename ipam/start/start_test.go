package start_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/start"
)

// disk is what a peer keeps of its starts.
type disk struct {
	out  effect.Out
	w    effect.Writer
	now  time.Time
	keys map[string][]byte
}

func newDisk() *disk {
	d := &disk{now: time.Unix(1000, 0), keys: map[string][]byte{}}
	d.w = effect.NewWriter(&d.out)
	return d
}

// begin begins a start, and returns since when the clock is said not to be set.
func (d *disk) begin(t *testing.T, host start.HostBoot) (s *start.Start, set time.Time) {
	t.Helper()
	d.w.Reset(d.now)
	s = start.New(&d.w)
	for key, value := range d.keys {
		if err := s.Restore(key, value); err != nil {
			t.Fatal(err)
		}
	}
	s.Begin(rand.New(rand.NewPCG(1, 1)))
	s.Save(s.Boot(), "nas", 7)
	set = s.BeginClock(host)
	d.commit()
	return s, set
}

func (d *disk) commit() {
	for _, r := range d.out.Save {
		d.keys[string(r.Key)] = append([]byte{}, r.Value...)
	}
	d.out.Save = d.out.Save[:0]
}

func TestBegin(t *testing.T) {
	d := newDisk()
	s := start.New(&d.w)
	if s.HasBegun() || !s.IsFirst() {
		t.Error("a peer has begun that has made no step")
	}
	first, _ := d.begin(t, start.HostBoot{})
	if !first.HasBegun() || !first.IsFirst() || first.Boot() != 1 || !first.At().Equal(d.now) || !first.Joined().Equal(d.now) {
		t.Errorf("the first start is %d at %v", first.Boot(), first.At())
	}
	d.now = d.now.Add(time.Minute)
	second, _ := d.begin(t, start.HostBoot{})
	if second.IsFirst() || second.Boot() != 2 || second.ID() != first.ID() {
		t.Errorf("the second start is %d of %v", second.Boot(), second.ID())
	}
	began := d.now
	d.now = d.now.Add(time.Minute)
	d.w.Reset(d.now)
	if second.Join(); !second.Joined().Equal(d.now) || !second.At().Equal(began) {
		t.Error("a peer did not come into its cluster when it did")
	}
}

func TestLabel(t *testing.T) {
	d := newDisk()
	s, _ := d.begin(t, start.HostBoot{})
	s.SetLabel("lab")
	s.SetLabel("lab")
	if len(d.out.Save) != 1 {
		t.Errorf("the label was written %d times", len(d.out.Save))
	}
	d.commit()
	if again, _ := d.begin(t, start.HostBoot{}); again.Label() != "lab" {
		t.Errorf("the label is %q", again.Label())
	}
}

// Each row is what happened to the clock between two starts, and whether the second one takes it for set.
func TestClockBetweenStarts(t *testing.T) {
	host := start.HostBoot{ID: "one", At: time.Unix(500, 0)}
	for name, c := range map[string]struct {
		then start.HostBoot
		set  bool
	}{
		"nothing":                           {host, false},
		"it drifted":                        {start.HostBoot{ID: "one", At: host.At.Add(engine.ClockSlack - 1)}, false},
		"it was set ahead":                  {start.HostBoot{ID: "one", At: host.At.Add(engine.ClockSlack)}, true},
		"it was set back":                   {start.HostBoot{ID: "one", At: host.At.Add(-time.Hour)}, true},
		"the kernel does not say any more":  {start.HostBoot{ID: "one"}, true},
		"the host started anew":             {start.HostBoot{ID: "two", At: host.At.Add(time.Hour)}, false},
		"the host started anew, unknowably": {start.HostBoot{ID: "two"}, false},
	} {
		d := newDisk()
		if _, set := d.begin(t, host); !set.IsZero() {
			t.Fatalf("%s: a new database takes the clock for set", name)
		}
		d.now = d.now.Add(time.Minute)
		_, set := d.begin(t, c.then)
		if set.IsZero() == c.set || c.set && !set.Equal(d.now) {
			t.Errorf("%s: set since %v", name, set)
		}
		d.now = d.now.Add(time.Minute)
		if _, again := d.begin(t, c.then); c.set && !again.Equal(set) {
			t.Errorf("%s: the next start says %v", name, again)
		}
	}
}

// A clock that is set while the peer runs is not taken for set once more by the next start.
func TestClockSetWhileItRuns(t *testing.T) {
	d := newDisk()
	host := start.HostBoot{ID: "one", At: time.Unix(500, 0)}
	s, _ := d.begin(t, host)
	d.now = d.now.Add(time.Hour)
	d.w.Reset(d.now)
	s.Disturb(time.Hour)
	d.commit()
	at := d.now
	d.now = d.now.Add(time.Minute)
	if _, set := d.begin(t, start.HostBoot{ID: "one", At: host.At.Add(time.Hour)}); !set.Equal(at) {
		t.Errorf("set since %v, not %v", set, at)
	}
}

func TestDamaged(t *testing.T) {
	d := newDisk()
	d.begin(t, start.HostBoot{ID: "one", At: time.Unix(500, 0)})
	for key, value := range d.keys {
		for n := range value {
			if err := start.New(&d.w).Restore(key, value[:n]); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s, %d bytes: %v", key, n, err)
			}
		}
		if err := start.New(&d.w).Restore(key, append([]byte{9}, value[1:]...)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s of another format: %v", key, err)
		}
	}
	none := make([]byte, len(d.keys[start.KeySelf]))
	copy(none, d.keys[start.KeySelf])
	clear(none[1:17])
	if err := start.New(&d.w).Restore(start.KeySelf, none); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("nobody's ID: %v", err)
	}
}
