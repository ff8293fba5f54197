package events

import (
	"context"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam"
)

// Feed makes events of what the node notes and of the problems of the status.
// Use [NewFeed].
type Feed struct {
	log  *Log          // nil until begin; then it does not change
	stir chan struct{} // has room for one: something has happened
	pace *pace.Pace    // may be nil
	edge *contain.Edge

	mu    sync.Mutex
	early []earlyNote // of the node's first commit, before its boot was known
}

type earlyNote struct {
	at   time.Time
	note ipam.Note
}

// NewFeed returns a feed that keeps what is noted until Begin. A nil pace leaves the looks at the status to themselves. A panic at
// an event is edge's.
func NewFeed(p *pace.Pace, edge *contain.Edge) *Feed {
	return &Feed{stir: make(chan struct{}, 1), pace: p, edge: edge}
}

// Log returns the events; nil before Begin.
func (f *Feed) Log() *Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log
}

// Stirred has the problems looked at soon, since something has happened that may
// bring or end one. It does not block.
func (f *Feed) Stirred() {
	wake.Up(f.stir)
}

// Note takes what the node noted. It does not block. A panic costs that event.
func (f *Feed) Note(n ipam.Note) { f.edge.Do(func() { f.take(n) }) }

func (f *Feed) take(n ipam.Note) {
	f.Stirred()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		f.early = append(f.early, earlyNote{time.Now(), n})
		return
	}
	f.log.Note(time.Now(), n)
}

// Begin makes the log of this start, which every event names in its ID.
func (f *Feed) Begin(id ipam.Identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = New(uint64(id.Boot), id.Nonce, 0)
	for _, e := range f.early {
		f.log.Note(e.at, e.note)
	}
	f.early = nil
}

// The problems of the status are looked at every watchInterval while they change
// or something happens, and every calmInterval otherwise: a look reads all that
// there is to say of the cluster, in a large one for nothing nearly always.
const (
	watchInterval = 2 * time.Second
	calmInterval  = 10 * time.Second // at most
)

// Watch makes events of problems that begin or end, until ctx ends. Its error
// is always nil.
func (f *Feed) Watch(ctx context.Context, status func(context.Context) (ipam.Status, error)) error {
	for {
		began, calm := time.Now(), false
		f.edge.Do(func() {
			st, err := status(ctx)
			if log := f.Log(); err == nil && log != nil {
				calm = !log.Problems(time.Now(), st.Problems)
			}
		})
		if calm && !backoff.Sleep(ctx, f.pace.Within(calmInterval), f.stir) {
			return nil
		}
		if next := began.Add(watchInterval); !backoff.Sleep(ctx, time.Until(next), nil) {
			return nil
		}
	}
}
