package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/heap"
)

// Many peers, and many addresses: what one changes, all know a few seconds later
// without a single broadcast, each comparing with one other peer a second at
// most. The messages and bytes are counted, and printed.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("holds two million records at a time")
	}
	t.Run("200 peers", func(t *testing.T) { scale(t, 200, 20) })
	t.Run("100000 records", func(t *testing.T) { scale(t, 20, 5000) })
}

func scale(t *testing.T, peers, records int) {
	t.Helper()
	now := someTime
	rng := rand.New(rand.NewPCG(1, 2))
	var rs []*Replica
	for i := range peers {
		r := started(i, 1, now)
		for j := range records {
			r.Set(fmt.Sprintf("ringlet/state/ip/v1/ringlet/10.%d.%d.%d", i%256, j>>8, j&255), fmt.Appendf(nil,
				`{"pool":"10.0.0.0/8","node":"host-%d","state":"held","kind":"container","container":"%064x","name":"web-%d","mac":"02:42:0a:00:00:01","since":"2026-11-21T09:00:00Z"}`, i, j, j))
		}
		rs = append(rs, r)
	}
	alike := func() bool {
		for _, r := range rs {
			if r.Digest() != rs[0].Digest() {
				return false
			}
		}
		return true
	}
	// settle lets a second pass at a time until all agree: in each, every peer
	// hears of one other, as from the answer to its probe.
	settle := func(limit int) (seconds, messages, size int) {
		for ; !alike(); seconds++ {
			if seconds == limit {
				t.Fatalf("they do not agree after %d seconds", limit)
			}
			now = now.Add(time.Second)
			for _, r := range rs {
				if other := rs[rng.IntN(peers)]; other.Digest() != r.Digest() {
					m, s := talk(t, r, other, false, now)
					messages, size = messages+m, size+s
				}
			}
		}
		return seconds, messages, size
	}
	say := func(what string, seconds, messages, size int) {
		fmt.Fprintf(t.Output(), "%s: %d seconds, for each peer %d messages and %d bytes\n", what, seconds, messages/peers, size/peers)
	}
	seconds, messages, size := settle(30)
	say("all from nothing", seconds, messages, size)
	total := 0
	for _, r := range rs {
		for e := range r.own.changes.After(0) {
			total += len(e.Key()) + len(e.Value())
		}
	}
	if size/peers > 2*total {
		t.Errorf("each peer moved %d bytes to get %d", size/peers, total)
	}

	rs[7].Set("ringlet/state/ip/v1/ringlet/10.99.0.1", []byte(`{"name":"new"}`))
	seconds, messages, size = settle(15)
	say("one change", seconds, messages, size)
	if size/peers > 8<<10 {
		t.Errorf("one change cost each peer %d bytes", size/peers)
	}
	for _, r := range rs {
		for j := range 10 {
			r.Remove(fmt.Sprintf("ringlet/state/ip/v1/ringlet/10.%d.0.%d", bucket(r.own.origin), j))
			r.Set(fmt.Sprintf("ringlet/state/new/%d", j), []byte(`{"name":"new"}`))
		}
	}
	seconds, messages, size = settle(15)
	say("ten changes of each", seconds, messages, size)
	for _, r := range rs {
		if got := r.Size(); got.Peers != peers || got.Records < peers*records {
			t.Fatalf("a replica has %+v", got)
		}
	}
}

// A copy of 100,000 addresses takes less than 12 MB. What it takes is printed.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector multiplies")
	}
	const records = 100_000
	now := someTime
	a, b := started(1, 1, now), started(2, 1, now)
	for j := range records {
		a.Set(fmt.Sprintf("ringlet/state/ip/v1/ringlet/10.%d.%d.%d", j>>16, j>>8&255, j&255), fmt.Appendf(nil,
			`{"pool":"10.0.0.0/8","node":"host-7","state":"held","kind":"container","container":"%064x","name":"web-%d","mac":"02:42:0a:00:00:01","since":"2026-11-21T09:00:00.123456789Z"}`, j, j))
	}
	a.Events()
	before := heap.InUse()
	talk(t, a, b, false, now)
	b.Events()
	took := heap.InUse() - before
	fmt.Fprintf(t.Output(), "%d addresses take %.1f MB\n", records, float64(took)/1e6)
	if took > 12e6 {
		t.Errorf("%d addresses take %d bytes", records, took)
	}
	if a.Digest() != b.Digest() || b.Size().Records != records {
		t.Errorf("the copy has %+v", b.Size())
	}
}
