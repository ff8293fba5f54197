package health

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/plugin/fault"
)

const (
	// roundTime is how long a round takes at least, and spacing how long passes from one question to the next at least.
	roundTime = 30 * time.Second
	spacing   = 500 * time.Millisecond
	// firstRound is how long the first round takes at least, and how often it is looked for somebody to ask: an operator who has just
	// set an address looks for the result.
	firstRound = 4 * time.Second
	// mostAsked is how many questions are under way at most.
	mostAsked = 8
)

// Config is what a [Monitor] needs.
type Config struct {
	Self   string         // ID of this peer
	At     netip.AddrPort // where it answers
	Hosts  func() map[string]netip.AddrPort
	Logger *slog.Logger
	Round  time.Duration // how long a round takes at least; 0: 30 seconds
}

// Monitor asks other hosts at their health addresses.
type Monitor struct {
	cfg   Config
	fault *fault.Fault                            // this host cannot use its address
	lost  atomic.Pointer[context.CancelCauseFunc] // closes what listens there; nil: nothing does

	mu     sync.Mutex
	others map[string]Answer // by the ID of the peer
}

// Answer is what became of the questions to another host.
type Answer struct {
	At     netip.AddrPort
	Err    error     // why the last question had no answer; nil: it had one
	Since  time.Time // since when it is so
	Failed int       // how many questions in a row had no answer
}

// New returns a monitor that has asked nobody yet. Config.Hosts returns where the other peers that gossip reaches answer, by their
// IDs. It must not block.
func New(cfg Config) *Monitor {
	return &Monitor{cfg: cfg, fault: unavailable(cfg.At, cfg.Logger), others: map[string]Answer{}}
}

// Fault returns what is wrong with the health address of this host.
func (m *Monitor) Fault() *fault.Fault { return m.fault }

// Answers returns what became of the questions to other hosts, by the IDs of their peers.
func (m *Monitor) Answers() map[string]Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.others)
}

// Run answers and asks until ctx ends. Its error is always nil.
func (m *Monitor) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { m.listen(ctx) })
	room := make(chan struct{}, mostAsked)
	least := cmp.Or(m.cfg.Round, firstRound)
	for ctx.Err() == nil {
		targets := m.targets()
		pause := pauseFor(len(targets), least)
		if len(targets) == 0 {
			backoff.Sleep(ctx, vary(pause), nil)
			continue
		}
		least = cmp.Or(m.cfg.Round, roundTime)
		for id, at := range targets { // in an order that differs from round to round
			if !backoff.Sleep(ctx, vary(pause), nil) {
				break
			}
			room <- struct{}{} // each question makes room again in time
			work.Go(func() {
				defer func() { <-room }()
				err := ask(ctx, m.cfg.At.Addr(), id, at)
				if ctx.Err() == nil {
					m.note(id, at, err, time.Now())
				}
			})
		}
	}
	return nil
}

// pauseFor returns how long passes from one question of a round to the next, where a round with few hosts takes so long.
func pauseFor(hosts int, least time.Duration) time.Duration {
	return max(least/time.Duration(max(hosts, 1)), min(least, spacing))
}

// vary returns d, a fifth of it more or less, so that hosts do not ask in step.
func vary(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5) }

// targets returns who is to be asked in a round, and forgets all others. It is nobody while this host cannot use its own address:
// then the others are not at fault.
func (m *Monitor) targets() map[string]netip.AddrPort {
	out := map[string]netip.AddrPort{}
	if m.usable() {
		for id, at := range m.cfg.Hosts() {
			if id != m.cfg.Self && at.Addr().Is4() == m.cfg.At.Addr().Is4() { // from an address of the other family it is not reached
				out[id] = at
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.others, func(id string, a Answer) bool { return out[id] != a.At })
	return out
}

// usable reports whether this host has its address. What listens at one that was taken away stays open, and is closed here.
func (m *Monitor) usable() bool {
	if m.fault.Is() {
		return false
	}
	if err := has(m.cfg.At.Addr()); err != nil {
		m.fault.Set(err)
		if lost := m.lost.Load(); lost != nil {
			(*lost)(err)
		}
		return false
	}
	return true
}

// note notes how a question ended.
func (m *Monitor) note(id string, at netip.AddrPort, err error, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.others[id]
	is := Answer{At: at, Err: err, Since: now}
	if err != nil {
		is.Failed = was.Failed + 1
	}
	if known && was.At == at && (was.Err == nil) == (err == nil) {
		is.Since = was.Since
	}
	m.others[id] = is
}
