package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
)

// lead serves everybody who waits, the caller's own job among them, and then
// hands over to somebody who came meanwhile. Where only frames did, for which
// nobody waits, they are served in a goroutine: the caller has its answer.
func (n *Node) lead() {
	if n.serveQueue() {
		go n.leadAlone()
	}
}

// leadAlone serves until nobody waits, or somebody came who leads.
func (n *Node) leadAlone() {
	for n.serveQueue() {
	}
}

// Stop returns when what has come is served, also what nobody waits for, and nobody is at work on the machine. What comes
// later, and what waits for other peers, gets a [StopError]. It is for the end, before the store is closed.
func (n *Node) Stop() {
	why := n.stopError(errStopped, "is opening its database: run the command again")
	n.mu.Lock()
	if n.refuses == nil {
		n.refuses = why
	}
	n.mu.Unlock()
	n.leads.Wait()
	n.fail(why, nil)
}

// errStopped is the cause of what [Node.Stop] refuses.
var errStopped = errors.New("the node was stopped")

// serveQueue serves all that has come, and reports whether there is more, and
// nobody else to serve it.
func (n *Node) serveQueue() bool {
	n.mu.Lock()
	batch := n.next()
	n.mu.Unlock()
	if len(batch) > 0 {
		n.serve(batch)
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		n.failAll()
	}
	if len(n.queue) == 0 {
		n.leading = false
		n.leads.Done()
		return false
	}
	next := n.successor()
	if next == nil {
		return true
	}
	next.turn <- true
	return false
}

// next takes the next batch from the queue. Views let a batch of requests go first,
// once: they stay at the head of the queue, so that the caller of one leads then, and
// no request that is done waits for what a view takes. n.mu is held.
func (n *Node) next() []*job {
	all := n.queue
	n.queue = nil
	if !slices.ContainsFunc(all, func(j *job) bool { return j.call.Request != nil }) {
		return all
	}
	batch := all[:0]
	for _, j := range all {
		if j.view != nil && !j.late {
			j.late = true
			n.queue = append(n.queue, j)
		} else {
			batch = append(batch, j)
		}
	}
	return batch
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
	n.notes, n.sends, n.replied = n.notes[:0], n.sends[:0], n.replied[:0]
	var beat []byte
	var wakeAt time.Time
	step := func(now time.Time, ev ipam.Event, put func(string, []byte, []byte) error) error {
		marked(ev)
		fx := n.machine.Step(now, ev)
		for _, r := range fx.Save {
			if err := put(r.Bucket, r.Key, r.Value); err != nil {
				return err
			}
		}
		n.sends = append(n.sends, fx.Send...)
		if fx.Beat != nil {
			beat = fx.Beat
		}
		n.take(fx.Reply)
		n.notes = append(n.notes, fx.Note...)
		wakeAt = fx.WakeAt
		return nil
	}
	defer n.failAtPanic(batch)
	err := n.cfg.Store.Commit(func(put func(bucket string, key, value []byte) error) error {
		for _, j := range batch {
			ev, begins := n.begin(j)
			if ev == nil {
				continue
			}
			if begins {
				calls++
			}
			now, by := n.clock.read()
			if by != 0 {
				n.cfg.Logger.Info("clock step or suspend detected", slog.Duration("by", by))
				if err := step(now, ipam.ClockSet{By: by}, put); err != nil {
					return err
				}
			}
			if err := step(now, ev, put); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.cfg.Logger.Error("commit failed, nothing more is answered", logattr.Err(err))
		n.fail(n.stopError(err, "cannot write its database (%v): see to the disk, it starts again by itself", err), batch)
		return
	}
	if n.cfg.ObserveCommit != nil && calls > 0 {
		n.cfg.ObserveCommit(calls, time.Since(began))
	}
	n.report(n.notes)
	n.exchange(n.sends, beat)
	n.answer(batch, n.replied)
	n.setAlarm(wakeAt)
}

// take gives replies to the calls that wait for them. They leave after the commit.
func (n *Node) take(replies []ipam.Reply) {
	for i := range replies {
		j := n.waiting[replies[i].Call]
		delete(n.waiting, replies[i].Call)
		n.replyTo(j, &replies[i])
		n.replied = append(n.replied, j)
	}
}

// begin returns the event of a job, nil if it has none: it only reads, or its caller has gone. begins says that a call begins.
func (n *Node) begin(j *job) (ev ipam.Event, begins bool) {
	switch {
	case j.view != nil:
		return nil, false
	case j.event != nil:
		if _, ok := j.event.(*ipam.Message); ok {
			n.arrivals.queued.Add(-1)
			n.arrivals.bytes.Add(-j.size)
		}
		return j.event, false
	case j.call.Request == nil:
		n.wakeAt = time.Time{} // the alarm has gone off
		return ipam.Tick{}, false
	case j.ctx.Err() != nil && grants(j.call.Request):
		return nil, false
	}
	n.nextID++
	j.call.ID = n.nextID
	n.waiting[j.call.ID] = j
	return &j.call, true
}

// failAtPanic has nothing more answered after a panic of the machine, which may be half way through a step. It is thrown away.
// It must be deferred itself.
func (n *Node) failAtPanic(batch []*job) {
	if v := recover(); v != nil {
		stack := debug.Stack()
		n.cfg.Logger.Error("core panicked, nothing more is answered", slog.Any("panic", v), slog.String("stack", string(stack)))
		why := n.stopError(fmt.Errorf("panic: %v", v),
			"has stopped at an error of its own (panic: %v): report it with what ringlet bundle writes, it starts again by itself", v)
		why.Stack = stack
		n.fail(why, batch)
	}
}

// grants reports whether a request asks for something, so that it is pointless
// once its caller has gone. All others say what has happened.
func grants(r ipam.Request) bool {
	switch r.(type) {
	case *ipam.AddressRequest, *ipam.ClientRequest, *ipam.PoolRequest, *ipam.PoolCreation:
		return true
	}
	return false
}

// takes reports whether a request asks for something that nobody has yet. What an
// engine that starts asks for again names its address or its subnet, and goes on.
func takes(r ipam.Request) bool {
	switch r := r.(type) {
	case *ipam.AddressRequest:
		return r.Purpose == ipam.ForContainer || !r.Address.IsValid()
	case *ipam.PoolRequest:
		return !r.Pool.IsValid()
	case *ipam.ClientRequest, *ipam.PoolCreation:
		return true
	}
	return false
}

// answer wakes everybody whose job is done: those that have a reply, those of the
// batch that need none, and then, one after the other, those who look.
func (n *Node) answer(batch, replied []*job) {
	n.mu.Lock()
	for _, j := range replied {
		n.finish(j)
	}
	for _, j := range batch {
		// Ticks are done; so is what was never begun.
		if j.view == nil && (j.call.Request == nil || j.call.ID == 0) {
			n.finish(j)
		}
	}
	n.mu.Unlock()
	for _, j := range batch {
		if j.view != nil {
			n.show(j)
		}
	}
}

// show lets a caller that still waits look.
func (n *Node) show(j *job) {
	n.mu.Lock()
	abandoned := j.abandoned
	n.mu.Unlock()
	if abandoned {
		return
	}
	j.view(n.machine)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.finish(j)
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
			j.err = context.Cause(j.ctx)
		}
		j.turn <- false
		return
	}
	if j.reply == nil {
		return // it was not begun, or needs none
	}
	if t := j.reply.Address.Ticket; !t.IsZero() {
		n.undo(&ipam.Withdrawal{Ticket: t})
	}
	if g := j.reply.Pool; g != nil && g.Chosen {
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

// StopError is why a node has stopped for good. It wraps the [ipam.Error] that
// callers of the node read, of the kind [ipam.ErrStopped], and the cause.
type StopError struct {
	Cause error  // what the store said, or the panic
	Stack []byte // of the panic; nil: there was none

	told ipam.Error
}

// Error returns the sentence for people.
func (e *StopError) Error() string { return e.told.Text }

// Unwrap returns the error that callers read, and the cause.
func (e *StopError) Unwrap() []error { return []error{&e.told, e.Cause} }

// stopError returns the error of a node that has stopped, of which the sentence tells what it does.
func (n *Node) stopError(cause error, does string, args ...any) *StopError {
	return &StopError{Cause: cause, told: ipam.Error{
		Kind: ipam.ErrStopped,
		Text: fmt.Sprintf("ringlet on %s %s", n.cfg.Machine.Name, fmt.Sprintf(does, args...)),
	}}
}

// fail stops the node for good, for that reason. The batch is what was being served.
func (n *Node) fail(why *StopError, batch []*job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.refuses, n.err = why, why
	close(n.failed)
	for _, j := range batch {
		delete(n.waiting, j.call.ID)
		n.wakeFailed(j)
	}
	for _, j := range n.replied { // some waited since an earlier batch
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

// alarmSlack is by how much the machine may want to be woken later before the alarm is put off: under load it is not
// set anew in each step.
const alarmSlack = 500 * time.Millisecond

// setAlarm has the machine woken when it wants to be, or before that: an alarm that goes off early does no harm. A
// machine that does not want to be woken may be, once. Where nobody waits any step does what an alarm does, and puts it
// off; a call that waits for nothing but time is tried again at an alarm alone.
func (n *Node) setAlarm(at time.Time) {
	if at.IsZero() {
		return
	}
	if soon := !n.wakeAt.IsZero() && !at.Before(n.wakeAt); soon && (len(n.waiting) > 0 || at.Sub(n.wakeAt) < alarmSlack) {
		return
	}
	n.wakeAt = at
	n.alarm.Reset(time.Until(at))
}
