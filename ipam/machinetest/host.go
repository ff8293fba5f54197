// Package machinetest runs one machine of the real core under a test's control: the clock is a number, and the disk a map.
//
// A [Host] is one peer with its disk. It commits what a step wants saved and then hands out the replies, as ipam/node does in
// production, and can crash before or after the commit: what was not committed is gone, what was answered was committed. After each
// step it checks the invariants, and that the machine which its disk would restore shows the same state.
//
// Package ipamtest runs whole clusters. Nothing here is used in production.
package machinetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Disk holds what was committed, by bucket and key.
type Disk map[string][]byte

const sep = "\x00\x00"

// Key is where a record is on the disk.
func Key(bucket, key string) string { return bucket + sep + key }

// Split returns the bucket and the key of a place on the disk.
func Split(at string) (bucket, key string) {
	bucket, key, _ = strings.Cut(at, sep)
	return bucket, key
}

// Load calls visit for each record, in order of buckets and keys.
func (d Disk) Load(visit func(bucket string, key, value []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(d)) {
		bucket, key := Split(k)
		if err := visit(bucket, []byte(key), d[k]); err != nil {
			return err
		}
	}
	return nil
}

// Commit writes the records.
func (d Disk) Commit(save []ipam.Record) {
	for _, r := range save {
		k := Key(r.Bucket, string(r.Key))
		if r.Value == nil {
			delete(d, k)
			continue
		}
		d[k] = slices.Clone(r.Value)
	}
}

// Host is one peer. Use [NewHost].
type Host struct {
	tb      testing.TB
	cfg     ipam.Config
	Disk    Disk
	Now     time.Time
	stepped time.Time // when the machine was
	wakeAt  time.Time // when it wants to be; zero: not by itself
	machine *ipam.Machine
	calls   uint64
	seed    uint64
	// Notes are those of the last call, without those of the trail.
	Notes []ipam.Note
	// Trail has, of all calls, what became of addresses and ranges.
	Trail []ipam.Note
}

// Start is when a host's clock begins.
var Start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// NewHost returns a started peer with an empty disk. Fields of cfg that must be set and are not are filled in.
func NewHost(tb testing.TB, cfg ipam.Config) *Host {
	tb.Helper()
	if cfg.Name == "" {
		cfg.Name = "host-a"
	}
	if cfg.HostBoot.At.IsZero() {
		cfg.HostBoot.At = Start.Add(-time.Hour)
	}
	h := &Host{tb: tb, cfg: cfg, Disk: Disk{}, Now: Start}
	h.Restart()
	return h
}

// Machine returns the machine, which changes with each restart.
func (h *Host) Machine() *ipam.Machine { return h.machine }

// Restart makes the machine anew from the disk, as after a crash.
func (h *Host) Restart() {
	h.tb.Helper()
	h.seed++
	cfg := h.cfg
	cfg.Rand = rand.New(rand.NewPCG(h.seed, 1))
	m, err := ipam.Restore(cfg, h.Disk.Load)
	if err != nil {
		h.tb.Fatalf("restore: %v", err)
	}
	h.machine, h.wakeAt = m, time.Time{}
	h.Call(&ipam.Greeting{})
}

// SetClock has somebody set the clock under the process, or, if it is not running, while it is away: then it starts anew.
func (h *Host) SetClock(by time.Duration, running bool) {
	h.tb.Helper()
	h.Now, h.cfg.HostBoot.At, h.wakeAt = h.Now.Add(by), h.cfg.HostBoot.At.Add(by), time.Time{}
	if !running {
		h.Restart()
		return
	}
	h.step(ipam.ClockSet{By: by}, 0)
}

// Reboot starts the host anew, with another time on its clock.
func (h *Host) Reboot(by time.Duration) {
	h.tb.Helper()
	h.Now = h.Now.Add(by)
	h.cfg.HostBoot.ID, h.cfg.HostBoot.At = h.cfg.HostBoot.ID+"again", h.Now
	h.Restart()
}

// Freeze has the process be frozen for that long, right after what it did last.
func (h *Host) Freeze(d time.Duration) { h.Now, h.wakeAt = h.Now.Add(d), time.Time{} }

// Call has a request served, commits, and returns the reply. It fails the test if the reply does not come at once.
func (h *Host) Call(r ipam.Request) ipam.Reply {
	h.tb.Helper()
	reply, ok := h.Try(r)
	if !ok {
		h.tb.Fatalf("%T is not answered at once", r)
	}
	return reply
}

// Try is Call for a request that may have to wait.
func (h *Host) Try(r ipam.Request) (ipam.Reply, bool) {
	h.tb.Helper()
	h.calls++
	return h.step(&ipam.Call{ID: h.calls, Deadline: h.Now.Add(20 * time.Second), Request: r}, h.calls)
}

// Tick steps the machine without a request, and returns the reply to the call that waits, if there is one now.
func (h *Host) Tick() (ipam.Reply, bool) {
	h.tb.Helper()
	return h.step(ipam.Tick{}, h.calls)
}

// step makes a step, and before that those that the machine has asked for since the last one, some seconds apart: the process was
// not frozen.
func (h *Host) step(ev ipam.Event, call uint64) (reply ipam.Reply, answered bool) {
	h.tb.Helper()
	for !h.wakeAt.IsZero() {
		if soon := h.stepped.Add(2 * time.Second); h.wakeAt.Before(soon) {
			h.wakeAt = soon
		}
		if !h.wakeAt.Before(h.Now) {
			break
		}
		if r, ok := h.stepAt(h.wakeAt, ipam.Tick{}, call); ok {
			reply, answered = r, ok
		}
	}
	if r, ok := h.stepAt(h.Now, ev, call); ok {
		return r, ok
	}
	return reply, answered
}

func (h *Host) stepAt(now time.Time, ev ipam.Event, call uint64) (ipam.Reply, bool) {
	h.tb.Helper()
	fx := h.machine.Step(now, Asked(h.machine, now, ev))
	h.stepped, h.wakeAt = now, fx.WakeAt
	h.Disk.Commit(fx.Save)
	h.Notes = h.Notes[:0]
	for _, n := range fx.Note {
		switch n.Kind {
		case ipam.NoteGranted, ipam.NoteFreed, ipam.NoteDescribed, ipam.NoteMoved:
			h.Trail = append(h.Trail, n)
		case ipam.NoteWithdrawn, ipam.NoteStranger, ipam.NotePoolDeleted:
			h.Trail = append(h.Trail, n)
			h.Notes = append(h.Notes, n)
		default:
			h.Notes = append(h.Notes, n)
		}
	}
	h.Check()
	for _, r := range fx.Reply {
		if r.Call == call {
			return r, true
		}
	}
	return ipam.Reply{}, false
}

// Mark returns the present moment, for a list that arrives later.
func (h *Host) Mark() ipam.Mark { return h.machine.Mark(h.Now) }

// Asked returns the event, or, for a list that says nothing of when it was asked for, the same as asked for just now.
func Asked(m *ipam.Machine, now time.Time, ev ipam.Event) ipam.Event {
	c, ok := ev.(*ipam.Call)
	if !ok {
		return ev
	}
	call := *c
	switch q := c.Request.(type) {
	case *ipam.Inventory:
		if q.After != (ipam.Mark{}) {
			return ev
		}
		list := *q
		list.After, call.Request = m.Mark(now), &list
	case *ipam.HostAddresses:
		if q.After != (ipam.Mark{}) {
			return ev
		}
		has := *q
		has.After, call.Request = m.Mark(now), &has
	default:
		return ev
	}
	return &call
}

// CrashBeforeCommit has a request served by a machine that crashes before it commits: nobody is answered, and nothing of it may be
// seen afterwards.
func (h *Host) CrashBeforeCommit(r ipam.Request) {
	h.tb.Helper()
	h.calls++
	h.machine.Step(h.Now, &ipam.Call{ID: h.calls, Deadline: h.Now.Add(20 * time.Second), Request: r})
	h.Restart()
}

// Check fails the test if an invariant is broken.
func (h *Host) Check() {
	h.tb.Helper()
	for _, err := range h.machine.Check(h.Now) {
		h.tb.Errorf("invariant: %v", err)
	}
	if h.tb.Failed() {
		h.tb.FailNow()
	}
}

// CheckDisk fails the test if the disk would restore another machine than the one that runs.
func (h *Host) CheckDisk() {
	h.tb.Helper()
	cfg := h.cfg
	cfg.Rand = rand.New(rand.NewPCG(1, 1))
	m, err := ipam.Restore(cfg, h.Disk.Load)
	if err != nil {
		h.tb.Fatalf("restore: %v", err)
	}
	got, want := h.show(m), h.show(h.machine)
	if got != want {
		h.tb.Fatalf("the disk restores\n%s\nand there runs\n%s", got, want)
	}
}

func (h *Host) show(m *ipam.Machine) string {
	list, err := m.Addresses(h.Now, "")
	s := m.Status(h.Now)
	var b strings.Builder
	fmt.Fprintln(&b, s.Cluster, s.Slot, err)
	for _, p := range s.Pools {
		p.Networks = 0 // what the engine lists is on no disk; those that it asked for follow
		fmt.Fprintf(&b, "%+v\n", p)
	}
	for _, n := range s.Networks {
		fmt.Fprintf(&b, "%+v\n", n)
	}
	for _, a := range list {
		fmt.Fprintf(&b, "%+v\n", a)
	}
	return b.String()
}
