// Package node gives a [ipam.Machine] one owner, a disk and a clock.
//
// It refuses to know the rules: what a request needs, and what a record or a frame means.
//
// Callers bring requests; the node steps the machine, commits what the steps
// want saved, and only then answers. Whoever comes while a commit is under
// way waits, and shares the next one with all others that wait: under load a
// commit serves many, and alone it is made in the caller's own goroutine,
// without handing anything over.
//
// If a commit fails, the machine is ahead of the disk and nobody knows how
// far. The node then refuses everything with a [StopError], [Node.Run] returns
// it, and the caller closes the store, opens it again and makes a new node.
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
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/contain"
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
	Preview *Preview     // of the store, which was opened with it and has not been written to since; may be nil
	Logger  *slog.Logger // must not be nil

	// Timeout ends a request whose context has no deadline; default 20 seconds.
	Timeout time.Duration
	// Closed returns why nothing is handed out for now, nil if it is. It is asked
	// before each request that takes something new; what is held, freed or asked for
	// again goes on. It may be nil, and must not block.
	Closed func() error
	// ObserveCommit is called after each commit with the number of calls that
	// shared it and the time it took. It may be nil, and must not block.
	ObserveCommit func(batch int, took time.Duration)
	// ObservePanic is called for each frame at which this program has an error of its
	// own, which costs that frame. It may be nil, and must not block.
	ObservePanic func(where string)
	// ObserveNote is called for each note of the machine. It may be nil, and
	// must not block.
	ObserveNote func(ipam.Note)
}

// Node owns a machine. Use [New].
type Node struct {
	cfg     Config
	machine *ipam.Machine
	alarm   *time.Timer   // goes off when the machine wants to be woken
	failed  chan struct{} // closed when err is set

	carrier  atomic.Pointer[carried]
	lastBeat atomic.Pointer[[]byte]
	arrivals arrivals

	decoding  contain.Edge
	snapshots snapshots
	guest     chan struct{} // has room for one: the guest that looks
	replies   sync.Pool     // of *ipam.Reply, all zero

	mu      sync.Mutex
	queue   []*job
	leading bool           // somebody is at work on the machine
	leads   sync.WaitGroup // one while somebody is
	refuses error          // why nothing more is taken
	err     error          // why nothing more is answered

	// Of the leader alone.
	clock   clock
	nextID  uint64
	waiting map[uint64]*job
	wakeAt  time.Time // when alarm goes off; zero: it has
	// Of the batch that is being served; kept, so that a steady load allocates none.
	notes   []ipam.Note
	sends   []ipam.Send
	replied []*job
}

// arrivals counts the frames of other peers.
type arrivals struct {
	queued     atomic.Int64  // frames that wait for the machine
	bytes      atomic.Int64  // how long they are together
	refused    atomic.Uint64 // frames that were not taken
	complained atomic.Int64  // when the log was last told of these, in Unix nanoseconds
}

// job is one caller's request, an event from elsewhere, or a look at the
// machine.
type job struct {
	call  ipam.Call
	event ipam.Event
	size  int64 // of a frame, in bytes
	view  func(*ipam.Machine)
	late  bool // the view has let a batch of requests go first
	ctx   context.Context

	// turn gets true when the caller is to lead, false when there is an answer,
	// or none will come as the node has failed.
	turn chan bool
	// reply is from Node.replies, nil until there is one; err is why a request was
	// not begun.
	reply *ipam.Reply
	err   error

	// answered is written under Node.mu, and by nobody after turn got false.
	answered  bool
	abandoned bool // under Node.mu
}

// New restores the machine from the preview or the store, and makes the first commit, in
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
	m, err := cfg.restore()
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	n := &Node{
		cfg: cfg, machine: m, clock: newClock(),
		alarm: time.NewTimer(0), failed: make(chan struct{}),
		waiting: map[uint64]*job{}, guest: make(chan struct{}, 1),
		decoding: contain.Edge{Where: "frame", Logger: cfg.Logger, Count: cfg.ObservePanic},
	}
	if _, err := n.call(context.Background(), &ipam.Greeting{}); err != nil {
		return nil, err
	}
	if _, err := n.Status(context.Background()); err != nil { // there is a snapshot from now on
		return nil, err
	}
	return n, nil
}

// Stopped returns a node that refuses everything with why: it stands for the node
// of a database that cannot be opened. It must not be run.
func Stopped(why error) *Node {
	n := &Node{refuses: why, err: why, failed: make(chan struct{})}
	close(n.failed) // a guest waits for its turn or for that
	return n
}

// Run wakes the machine when it wants to be woken. It returns nil when ctx
// ends, and a [StopError] if the node has stopped before.
func (n *Node) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.failed:
			return n.err
		case <-n.alarm.C:
			_ = n.do(&job{ctx: ctx, turn: make(chan bool, 1)}) // seen above
		}
	}
}

// answerAhead is how long before its caller's deadline a request that waits is
// answered, at most.
const answerAhead = 500 * time.Millisecond

// call has the machine serve a request.
func (n *Node) call(ctx context.Context, r ipam.Request) (ipam.Reply, error) {
	if n.cfg.Closed != nil && takes(r) {
		if err := n.cfg.Closed(); err != nil {
			return ipam.Reply{}, err
		}
	}
	deadline := time.Now().Add(n.cfg.Timeout)
	if end, ok := ctx.Deadline(); ok {
		// The machine answers a little earlier, since it knows what it waited
		// for, and its caller only that it has waited.
		deadline = end.Add(-min(answerAhead, time.Until(end)/4))
	}
	j := &job{call: ipam.Call{Deadline: deadline, Request: r}, ctx: ctx, turn: make(chan bool, 1)}
	if err := n.do(j); err != nil {
		return ipam.Reply{}, err
	}
	if j.reply == nil {
		return ipam.Reply{}, j.err
	}
	reply := *j.reply
	*j.reply = ipam.Reply{}
	n.replies.Put(j.reply) // nobody else has it: who served the call is done with it
	return reply, reply.Err
}

// replyTo gives a job its reply. Replies are large for what is in most of them,
// so that they are used again.
func (n *Node) replyTo(j *job, reply *ipam.Reply) {
	var ok bool
	if j.reply, ok = n.replies.Get().(*ipam.Reply); !ok {
		j.reply = new(ipam.Reply)
	}
	*j.reply = *reply
}

// valueOf returns what a field of a reply points at, the zero value if there is
// none.
func valueOf[T any](field *T) (v T) {
	if field != nil {
		v = *field
	}
	return v
}

// look returns what f says of the machine, between steps. Whoever gives up gets nothing of
// it: f may be at work still. A view that panics has changed nothing that counts: its caller
// gets an error, and the machine goes on.
func look[T any](ctx context.Context, n *Node, f func(*ipam.Machine) (T, error)) (T, error) {
	var out, none T
	var failed error
	view := func(m *ipam.Machine) {
		defer func() {
			if v := recover(); v != nil {
				n.cfg.Logger.Error("view panicked", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
				failed = fmt.Errorf("a view of the allocator panicked: %v", v)
			}
		}()
		out, failed = f(m)
	}
	leave, err := n.enter(ctx)
	if err != nil {
		return none, err
	}
	defer leave()
	if err := n.do(&job{view: view, ctx: ctx, turn: make(chan bool, 1)}); err != nil {
		return none, err
	}
	if failed != nil {
		return none, failed
	}
	return out, nil
}

// guestKey marks the context of a guest.
type guestKey struct{}

// AsGuest marks what is asked with the context as a guest's: of all guests, one
// looks at the machine at a time, so that no batch has more than one view of
// theirs, however many they are. It does not concern requests.
func AsGuest(ctx context.Context) context.Context { return context.WithValue(ctx, guestKey{}, true) }

// enter waits for a guest's turn to look.
func (n *Node) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Value(guestKey{}) == nil {
		return func() {}, nil
	}
	select {
	case n.guest <- struct{}{}:
		return func() { <-n.guest }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-n.failed:
		return nil, n.err
	}
}

// enqueue takes jobs, and reports whether who brings them is to lead.
func (n *Node) enqueue(jobs ...*job) (lead bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses != nil {
		return false, n.refuses
	}
	n.queue = append(n.queue, jobs...)
	if lead = !n.leading; lead {
		n.leading = true
		n.leads.Add(1)
	}
	return lead, nil
}

// do brings a job to its end: by leading, or by waiting for who leads.
func (n *Node) do(j *job) error {
	lead, err := n.enqueue(j)
	if err != nil {
		return err
	}
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

// outcome returns why a job whose turn is over has no answer, or nil.
func (n *Node) outcome(j *job) error {
	if j.answered {
		return nil // without the lock: all callers of a batch wake at once
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
