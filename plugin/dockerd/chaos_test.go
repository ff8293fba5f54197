package dockerd

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/network"
)

var seed = flag.Uint64("seed", 0, "seed of the chaos test; 0 means a random one")

// span is how long an endpoint existed; died is zero while it does.
type span struct{ born, died time.Time }

// chaos changes and breaks an engine at random, in the middle of its answers
// too, and keeps the truth.
type chaos struct {
	*bench
	mu       sync.Mutex
	rand     *rand.Rand
	next     int
	contents map[string]map[string]network.EndpointResource
	truth    map[string]span // by network and endpoint
	broken   bool
}

func (c *chaos) chance(percent int) bool { return c.rand.IntN(100) < percent }

// mutate makes one change to a random network, or adds one. An endpoint exists
// from before it can be seen until after, the careful reading of both ends.
func (c *chaos) mutate() {
	c.next++
	now, fresh := time.Now(), fmt.Sprintf("n%03d", c.next)
	all := slices.Sorted(maps.Keys(c.contents))
	if len(all) < 3 || c.chance(10) {
		c.contents[fresh] = nil
		c.set(fresh, nil)
		return
	}
	n := all[c.rand.IntN(len(all))]
	endpoints := maps.Clone(c.contents[n])
	switch held := slices.Sorted(maps.Keys(endpoints)); {
	case c.chance(10): // the network goes, and all in it
		for _, e := range held {
			c.truth[n+e] = span{c.truth[n+e].born, now}
		}
		delete(c.contents, n)
		c.remove(n)
		return
	case c.chance(50) && len(held) > 0:
		e := held[c.rand.IntN(len(held))]
		c.truth[n+e] = span{c.truth[n+e].born, now}
		delete(endpoints, e)
	default:
		if endpoints == nil {
			endpoints = map[string]network.EndpointResource{}
		}
		c.truth[n+fresh] = span{born: now}
		endpoints[fresh] = network.EndpointResource{EndpointID: fresh, IPv4Address: fmt.Sprintf("10.1.%d.%d/16", c.next/250, c.next%250+1)}
	}
	c.contents[n] = endpoints
	c.set(n, endpoints)
}

// fault is called before each answer.
func (c *chaos) fault(w http.ResponseWriter, r *http.Request) bool {
	c.mu.Lock()
	delay := time.Duration(c.rand.IntN(20)) * time.Millisecond
	c.mu.Unlock()
	time.Sleep(delay)
	c.mu.Lock()
	if c.chance(30) {
		c.mutate()
	}
	wrong, kind := c.broken && c.chance(15), c.rand.IntN(4)
	c.mu.Unlock()
	switch {
	case !wrong:
		return false
	case kind == 0:
		<-r.Context().Done()
	case kind == 1:
		w.WriteHeader(http.StatusInternalServerError)
	case kind == 2:
		_, _ = io.WriteString(w, `{"Id":"`)
	default:
		_, _ = io.WriteString(w, `[]`)
	}
	return true
}

// Whatever goes wrong, a complete inventory misses nothing that was there all
// the time, and no inventory shows what was not there at any time.
func TestChaos(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	inBubble(t, Config{Interval: time.Second}, func(b *bench) {
		c := &chaos{
			bench: b, rand: rand.New(rand.NewPCG(first, 0)), broken: true,
			contents: map[string]map[string]network.EndpointResource{}, truth: map[string]span{},
		}
		b.breakWith(c.fault)
		b.startPipes()
		var looks []Inventory
		for i := range 300 {
			if i%30 == 29 {
				b.stop()
				b.startPipes()
			}
			looks = append(looks, b.after(time.Second)...)
		}
		complete := 0
		for _, inv := range looks {
			if inv.Complete {
				complete++
			}
			c.mu.Lock()
			c.judge(inv)
			c.mu.Unlock()
		}
		if complete == 0 || complete == len(looks) {
			t.Errorf("%d of %d looks were complete, so nothing was tested", complete, len(looks))
		}
		c.mu.Lock()
		c.broken = false
		c.mu.Unlock()
		b.breakWith(nil)
		if got := b.after(30 * time.Second); len(got) == 0 || !got[len(got)-1].Complete {
			t.Errorf("no complete look after the chaos; state %+v", b.w.State())
		}
	})
	if t.Failed() {
		t.Logf("repeat with -seed=%d", first)
	}
}

func (c *chaos) judge(inv Inventory) {
	c.t.Helper()
	shown := map[string]bool{}
	for _, n := range inv.Networks {
		for _, e := range n.Endpoints {
			key := n.ID + e.ID
			shown[key] = true
			s, known := c.truth[key]
			if !known || s.born.After(inv.Ended) || !s.died.IsZero() && s.died.Before(inv.Begun) {
				c.t.Errorf("look of %v to %v shows %s, which was there %+v", inv.Begun, inv.Ended, key, s)
			}
		}
	}
	for key, s := range c.truth {
		always := s.born.Before(inv.Begun) && (s.died.IsZero() || s.died.After(inv.Ended))
		if inv.Complete && always && !shown[key] {
			c.t.Errorf("complete look of %v to %v lacks %s, which was there %+v", inv.Begun, inv.Ended, key, s)
		}
	}
}
