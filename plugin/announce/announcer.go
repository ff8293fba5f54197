package announce

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/wake"
)

// The results that are counted.
const (
	Sent        = "sent"        // a packet
	Failed      = "failed"      // a packet that could not be sent
	Gone        = "gone"        // a start whose address was no longer held with that MAC when a packet was due
	Unreachable = "unreachable" // a start on a network whose neighbours cannot be reached from this host
)

// Results returns all results.
func Results() []string { return []string{Sent, Failed, Gone, Unreachable} }

// Config is what an [Announcer] works with. All functions must be given, and be safe for concurrent use.
type Config struct {
	// Held returns which MAC the container has that holds an address on this host, the zero MAC if none does.
	Held func(ctx context.Context, a netip.Addr) (MAC, error)
	// Send sends what is due, and returns how many packets that were, and whether the kernel of this host itself goes by
	// another MAC still. An error is an [fs.ErrPermission] if this process may not send.
	Send func(Packet) (packets int, stale bool, err error)
	// Count counts a result.
	Count func(result string)
	// Fault says whether this process may send; nil if it may.
	Fault func(error)
	// Kept is what Keep got last, also in an earlier process. What cannot be read is passed over.
	Kept []byte
	// Keep keeps the networks that the engine listed, which it tells only when it has started.
	Keep   func(content []byte) error
	Logger *slog.Logger
}

// An Announcer announces containers that start. Use [New]. A nil Announcer announces nothing; Run must not be called on it.
// It is safe for concurrent use.
type Announcer struct {
	cfg  Config
	wake chan struct{} // of size one: the plan has changed

	mu   sync.Mutex
	plan *plan
}

// heldTime is how long Held may take: a disk that hangs holds it up.
const heldTime = 2 * time.Second

// New returns an announcer that has nothing to do yet.
func New(cfg Config) *Announcer {
	var kept []Network
	if len(cfg.Kept) > 0 {
		if err := json.Unmarshal(cfg.Kept, &kept); err != nil {
			cfg.Logger.Warn("networks of the engine's last list not readable, waiting for another list", logattr.Err(err))
			kept = nil
		}
	}
	return &Announcer{cfg: cfg, wake: make(chan struct{}, 1), plan: newPlan(kept, cfg.Count)}
}

// change changes the plan, and has Run look at it.
func (a *Announcer) change(f func(now time.Time, p *plan)) {
	if a == nil {
		return
	}
	a.mu.Lock()
	f(time.Now(), a.plan)
	a.mu.Unlock()
	wake.Up(a.wake)
}

// Granted takes in that an address was handed out to a container that starts now, with a MAC unless that is zero.
func (a *Announcer) Granted(at netip.Addr, mac MAC) {
	a.change(func(now time.Time, p *plan) { p.granted(now, at, mac) })
}

// Made takes in that the engine asks for the pool of a network which it makes.
func (a *Announcer) Made(subnet netip.Prefix) {
	a.change(func(now time.Time, p *plan) { p.made(now, subnet) })
}

// Forget takes in that addresses, from the first to the last, are or were somebody else's.
func (a *Announcer) Forget(first, last netip.Addr) {
	a.change(func(_ time.Time, p *plan) { p.forget(first, last) })
}

// Listed takes in what the engine has, and returns when that is kept. Nothing in it is changed, now or later.
func (a *Announcer) Listed(l List) {
	changed := false
	a.change(func(now time.Time, p *plan) { changed = p.listed(now, l) })
	if !changed {
		return
	}
	content, err := json.Marshal(l.Networks)
	if err == nil {
		err = a.cfg.Keep(content) // without the lock: requests do not wait for the disk
	}
	if err != nil {
		a.cfg.Logger.Warn("networks of the engine not kept for the next start", logattr.Err(err))
	}
}

// Run sends what is due until ctx ends. Its error is always nil.
func (a *Announcer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-a.wake:
		}
		timer.Reset(a.work(ctx))
	}
}

// work sends all that is due now, and returns the time until something else is.
func (a *Announcer) work(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		a.mu.Lock()
		what, ok := a.plan.next(time.Now())
		at, planned := a.plan.wait()
		a.mu.Unlock()
		switch {
		case ok:
			a.send(ctx, what)
		case planned:
			return time.Until(at)
		default:
			return time.Hour // whatever is planned wakes
		}
	}
	return 0
}

// send sends what is due, if the address is still held.
func (a *Announcer) send(ctx context.Context, what Packet) {
	bounded, cancel := context.WithTimeout(ctx, heldTime)
	mac, err := a.cfg.Held(bounded, what.Address)
	cancel()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && mac != what.MAC:
		a.cfg.Count(Gone)
		a.change(func(_ time.Time, p *plan) { p.drop(what) })
		return
	}
	packets, stale := 0, false
	if err == nil {
		packets, stale, err = a.cfg.Send(what)
		switch {
		case err == nil:
			a.cfg.Fault(nil)
		case errors.Is(err, fs.ErrPermission):
			a.cfg.Fault(err)
		}
	}
	for range packets {
		a.cfg.Count(Sent)
	}
	if err != nil {
		a.cfg.Count(Failed)
		a.cfg.Logger.Info("address not announced", logattr.Addr(what.Address), slog.String("link", what.Link.Name), logattr.Err(err))
	}
	a.change(func(now time.Time, p *plan) { p.sent(now, what, packets, stale) })
}
