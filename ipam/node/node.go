// Package node gives a [ipam.Machine] one owner, a disk and a clock.
//
// Callers bring requests; the node steps the machine, commits what the steps
// want saved, and only then answers. Whoever comes while a commit is under
// way waits, and shares the next one with all others that wait: under load a
// commit serves many, and alone it is made in the caller's own goroutine,
// without handing anything over.
//
// If a commit fails, the machine is ahead of the disk and nobody knows how
// far. The node then refuses everything with [ipam.ErrStopped], [Node.Run]
// returns the error, and the process is to start again from its disk.
//
// A request whose caller has gone is not begun; one that was granted an
// address after its caller had gone has the grant withdrawn. So no address is
// held by nobody because an answer came too late.
//
// All methods of Node are safe for concurrent use. Tests run it in a synctest
// bubble with a store in memory, or on a real one that fails on demand.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
)

// Store is the disk. persist.Store is one.
type Store interface {
	// Load calls visit for every record. Key and value are valid during the
	// call.
	Load(visit func(bucket string, key, value []byte) error) error
	// Commit runs fill, and makes what it put durable as a whole. A nil value
	// deletes. Nothing is written if fill puts nothing. After an error the
	// outcome is unknown.
	Commit(fill func(put func(bucket string, key, value []byte) error) error) error
}

// Config is what a [Node] is made of.
type Config struct {
	Machine ipam.Config
	Store   Store
	Logger  *slog.Logger // must not be nil

	// Timeout ends a request whose context has no deadline; default 20 seconds.
	Timeout time.Duration
	// ObserveCommit is called after each commit with the number of calls that
	// shared it and the time it took. It may be nil, and must not block.
	ObserveCommit func(batch int, took time.Duration)
	// ObserveNote is called for each note of the machine. It may be nil, and
	// must not block.
	ObserveNote func(ipam.Note)
}

// Node owns a machine. Use [New].
type Node struct {
	cfg     Config
	machine *ipam.Machine
	alarm   chan time.Time // when the machine wants to be woken; newest counts
	failed  chan struct{}  // closed when a commit has failed

	mu      sync.Mutex
	queue   []*job
	leading bool // somebody is at work on the machine
	err     error

	// Of the leader alone.
	nextID  uint64
	waiting map[uint64]*job
	wakeAt  time.Time
}

// job is one caller's request, or a look at the machine.
type job struct {
	call ipam.Call
	view func(*ipam.Machine)
	ctx  context.Context

	// turn gets true when the caller is to lead, false when there is an answer.
	turn  chan bool
	reply ipam.Reply

	// Under Node.mu.
	answered, abandoned bool
}

// New restores the machine from the store, and makes the first commit, in
// which a new peer founds its cluster and every peer raises its boot. It
// starts no goroutine.
func New(cfg Config) (*Node, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("node: no store")
	case cfg.Logger == nil:
		return nil, errors.New("node: no logger")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 20 * time.Second
	}
	m, err := ipam.Restore(cfg.Machine, cfg.Store.Load)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	n := &Node{
		cfg: cfg, machine: m,
		alarm: make(chan time.Time, 1), failed: make(chan struct{}),
		waiting: map[uint64]*job{},
	}
	if _, err := n.call(context.Background(), &ipam.Greeting{}); err != nil {
		return nil, err
	}
	return n, nil
}

// Run wakes the machine when it wants to be woken. It returns nil when ctx
// ends, and an error if a commit has failed.
func (n *Node) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.failed:
			return n.err
		case at := <-n.alarm:
			timer.Reset(time.Until(at))
		case <-timer.C:
			_ = n.do(&job{ctx: ctx, turn: make(chan bool, 1)}) // seen above
		}
	}
}

// call has the machine serve a request.
func (n *Node) call(ctx context.Context, r ipam.Request) (ipam.Reply, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(n.cfg.Timeout)
	}
	j := &job{call: ipam.Call{Deadline: deadline, Request: r}, ctx: ctx, turn: make(chan bool, 1)}
	if err := n.do(j); err != nil {
		return ipam.Reply{}, err
	}
	return j.reply, j.reply.Err
}

// look runs f with the machine, between steps.
func (n *Node) look(ctx context.Context, f func(*ipam.Machine)) error {
	return n.do(&job{view: f, ctx: ctx, turn: make(chan bool, 1)})
}

// do brings a job to its end: by leading, or by waiting for who leads.
func (n *Node) do(j *job) error {
	n.mu.Lock()
	if n.err != nil {
		defer n.mu.Unlock()
		return n.err
	}
	n.queue = append(n.queue, j)
	lead := !n.leading
	n.leading = true
	n.mu.Unlock()
	for {
		if lead {
			n.lead()
		}
		// From here on the machine keeps the call, or somebody else serves it,
		// unless it has its answer already: that comes before a caller's end.
		select {
		case lead = <-j.turn:
		default:
			select {
			case lead = <-j.turn:
			case <-j.ctx.Done():
				if n.abandon(j) {
					return context.Cause(j.ctx)
				}
				lead = <-j.turn // it got its turn in this very moment
			}
		}
		if !lead {
			return n.outcome(j)
		}
	}
}

// abandon leaves a job to itself, unless it has its turn already.
func (n *Node) abandon(j *job) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(j.turn) > 0 {
		return false
	}
	j.abandoned = true
	return true
}

func (n *Node) outcome(j *job) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !j.answered {
		return n.err
	}
	return nil
}

// lead serves everybody who waits, the caller's own job among them, and then
// hands over to somebody who came meanwhile.
func (n *Node) lead() {
	for {
		n.mu.Lock()
		batch := n.queue
		n.queue = nil
		n.mu.Unlock()
		if len(batch) > 0 {
			n.serve(batch)
		}

		n.mu.Lock()
		if n.err != nil {
			n.failAll()
			n.mu.Unlock()
			return
		}
		if len(n.queue) == 0 {
			n.leading = false
			n.mu.Unlock()
			return
		}
		if next := n.successor(); next != nil {
			next.turn <- true
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}

// successor returns a job of the queue whose caller can lead. n.mu is held.
func (n *Node) successor() *job {
	for _, j := range n.queue {
		if !j.abandoned {
			return j
		}
	}
	return nil
}

// serve steps the machine through a batch, commits what it wants saved, and
// answers.
func (n *Node) serve(batch []*job) {
	began := time.Now()
	calls := 0
	var replies []ipam.Reply
	var notes []ipam.Note
	var wakeAt time.Time
	step := func(ev ipam.Event, put func(string, []byte, []byte) error) error {
		fx := n.machine.Step(time.Now(), ev)
		for _, r := range fx.Save {
			if err := put(r.Bucket, r.Key, r.Value); err != nil {
				return err
			}
		}
		replies = append(replies, fx.Reply...)
		notes = append(notes, fx.Note...)
		wakeAt = fx.WakeAt
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			// The machine may be half way through a step. It is thrown away.
			n.fail(fmt.Errorf("panic: %v", v), batch)
			n.cfg.Logger.Error("core panicked", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		}
	}()
	err := n.cfg.Store.Commit(func(put func(bucket string, key, value []byte) error) error {
		for _, j := range batch {
			var ev ipam.Event = ipam.Tick{}
			switch {
			case j.view != nil:
				continue
			case j.call.Request == nil:
				n.wakeAt = time.Time{} // the alarm has gone off
			default:
				if j.ctx.Err() != nil && grants(j.call.Request) {
					continue // its caller has gone: it is not begun
				}
				n.nextID++
				j.call.ID = n.nextID
				n.waiting[j.call.ID] = j
				calls++
				ev = &j.call
			}
			if err := step(ev, put); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.fail(err, batch)
		return
	}
	if n.cfg.ObserveCommit != nil && calls > 0 {
		n.cfg.ObserveCommit(calls, time.Since(began))
	}
	n.report(notes)
	n.answer(batch, replies)
	n.setAlarm(wakeAt)
}

// grants reports whether a request asks for something, so that it is pointless
// once its caller has gone. All others say what has happened.
func grants(r ipam.Request) bool {
	switch r.(type) {
	case *ipam.AddressRequest, *ipam.ClientRequest, *ipam.PoolRequest, *ipam.PoolCreation, *ipam.LookupRequest:
		return true
	}
	return false
}

// answer gives every job of the batch that is done its answer.
func (n *Node) answer(batch []*job, replies []ipam.Reply) {
	for _, j := range batch {
		if j.view != nil {
			j.view(n.machine)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range replies {
		j := n.waiting[replies[i].Call]
		delete(n.waiting, replies[i].Call)
		j.reply = replies[i]
		n.finish(j)
	}
	for _, j := range batch {
		// Looks and ticks are done; so is what was never begun.
		if j.call.Request == nil || j.call.ID == 0 {
			n.finish(j)
		}
	}
}

// finish wakes the caller of a job, or withdraws what it was granted if the
// caller has gone. n.mu is held.
func (n *Node) finish(j *job) {
	if j.answered {
		return
	}
	j.answered = true
	if !j.abandoned {
		if j.call.Request != nil && j.call.ID == 0 {
			j.reply.Err = context.Cause(j.ctx)
		}
		j.turn <- false
		return
	}
	if t := j.reply.Address.Ticket; !t.IsZero() {
		n.undo(&ipam.Withdrawal{Ticket: t})
	}
	if g := j.reply.Pool; g.Chosen {
		n.undo(&ipam.PoolRelease{Network: g.Network})
	}
}

// undo queues a request that nobody waits for. n.mu is held.
func (n *Node) undo(r ipam.Request) {
	n.queue = append(n.queue, &job{
		call: ipam.Call{Deadline: time.Now().Add(n.cfg.Timeout), Request: r},
		ctx:  context.Background(), turn: make(chan bool, 1), abandoned: true,
	})
}

// fail stops the node for good. The batch is what the failed commit was for.
func (n *Node) fail(err error, batch []*job) {
	n.cfg.Logger.Error("commit failed, nothing more is answered", logattr.Err(err))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = &ipam.Error{
		Kind: ipam.ErrStopped,
		Text: fmt.Sprintf("ringlet on %s cannot write its database (%v): see to the disk, it starts again by itself", n.cfg.Machine.Name, err),
	}
	close(n.failed)
	for _, j := range batch {
		delete(n.waiting, j.call.ID)
		n.wakeFailed(j)
	}
	n.failAll()
}

// failAll wakes everybody. n.mu is held.
func (n *Node) failAll() {
	for id, j := range n.waiting {
		delete(n.waiting, id)
		n.wakeFailed(j)
	}
	for _, j := range n.queue {
		n.wakeFailed(j)
	}
	n.queue = nil
}

func (n *Node) wakeFailed(j *job) {
	if !j.abandoned && len(j.turn) == 0 {
		j.turn <- false
	}
}

// setAlarm passes on when the machine wants to be woken.
func (n *Node) setAlarm(at time.Time) {
	if at.IsZero() || at.Equal(n.wakeAt) {
		return
	}
	n.wakeAt = at
	select {
	case <-n.alarm: // an older wish
	default:
	}
	n.alarm <- at
}
