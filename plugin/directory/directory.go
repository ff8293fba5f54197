package directory

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// exchangeEvery is how often this peer begins an exchange at most. Not
	// "once it is quiet": a busy cluster never is.
	exchangeEvery = time.Second
	// leasesEvery is how often it compares leases with any peer, and all else
	// where no digests arrive.
	leasesEvery = 10 * time.Second
	// tickEvery is how often it is looked for leases that have ended, where none
	// is known to.
	tickEvery = 30 * time.Second
	// maxQueued is how many frames may wait to be taken in.
	maxQueued = 256
	// keptEvents is how many changes of keys are kept for those who watch.
	keptEvents = 4096
)

// Carrier brings frames to other peers. None of its methods may block.
type Carrier interface {
	// Send brings frames to one peer.
	Send(to peer.ID, frames ...[]byte)
	// Broadcast brings a hint to everybody, if it can.
	Broadcast(frame []byte)
	// Queued returns how many broadcasts are on their way.
	Queued() int
	// SetDigest shows a number to others, whenever it can.
	SetDigest(digest uint64)
	// Living returns the peers that answer.
	Living() []peer.ID
}

// Source is what this peer knows of itself.
type Source interface {
	// Snapshot returns the status of the peer and its cluster, also while the disk
	// hangs: then as it was.
	Snapshot(ctx context.Context) (ipam.Status, error)
	// List lists addresses of the peer as they are, for which it waits, some at a time.
	List(ctx context.Context, q ipam.Listing) (ipam.Portion, error)
}

// Config is what a [Directory] needs.
type Config struct {
	Self    ipam.Identity
	Cluster string // the cluster's label
	Source  Source // must not be nil
	// Log says what happens on this peer. Must not be nil.
	Log *events.Log
	// About tells of the process what the source does not know: Version, Address,
	// API, Health and Engine. It must not block.
	About func() Node
	// Networks names the Docker networks of this host on a pool; nil: nobody can. It
	// must not block.
	Networks func(pool netip.Prefix) []string
	// Containers tells what the labels of each of some containers say; what is not there is left out. Nil: nobody can tell.
	Containers func(ctx context.Context, containers []string) (map[string]Container, error)
	// SwarmServices lists the services of the engine's swarm that have virtual addresses, none where the engine is no manager. Nil:
	// nobody can tell.
	SwarmServices func(ctx context.Context) ([]SwarmService, error)
	// Identities agrees on the numbers of label sets; nil: containers have none.
	Identities Identities
	// Past tells a peer, as JSON, who had an address at a time; nil: nobody can tell. It returns when ctx ends.
	Past func(ctx context.Context, a netip.Addr, at time.Time) ([]byte, error)
	// Locks returns the locks of the cluster that are held; nil: nobody can.
	Locks  func(ctx context.Context) ([]lock.Lock, error)
	Pace   *pace.Pace   // of what is done now and then; may be nil
	Logger *slog.Logger // must not be nil
	// ObservePanic is called for each frame at which this program has an error of its
	// own, which costs that frame. It may be nil, and must not block.
	ObservePanic func(where string)
}

// Directory is this peer's end of the cluster's directory. Use [New].
type Directory struct {
	cfg     Config
	carrier atomic.Pointer[carried]
	digest  atomic.Uint64
	frames  chan []byte
	differs chan peer.ID // has room for one: compare with it
	counts  counters
	locked  atomic.Int64  // how many locks are shown
	wanted  chan struct{} // has room for one: somebody needs the number of a label set
	heart   string        // the key of the heartbeat
	uses    string        // the prefix of the keys of hosts that use identities
	watched *events.Ring[replica.Event]
	taking  contain.Edge

	questions chan *reply // of peers, that wait for an answer

	mu      sync.Mutex
	replica *replica.Replica
	cluster [16]byte // zero: none yet, and nothing is said to anybody
	boots   map[peer.ID]peer.Boot
	beat    time.Time            // when a heartbeat was last seen
	since   time.Time            // when this peer came into its cluster; zero: it is in none
	voice   bool                 // this peer is the first voter that can be reached: it says what is agreed to the outside
	cleared []replica.Clear      // keys that are to be set again
	clears  map[peer.ID][]uint64 // the serials of the last clears of each peer
	rouse   context.CancelFunc   // ends the publisher's wait; nil: it does not wait
	told    uint64               // up to which own change was broadcast, or has to be found

	agreement agreement // on the numbers of label sets

	inquiries map[uint64]*inquiry // what this peer asks others, by serial
	replies   []*reply            // the last questions of others, the oldest first
}

// carried is the carrier in use; the type makes it fit an atomic value.
type carried struct{ Carrier }

// New returns the directory of a peer that has just started. It does nothing
// before it is run.
func New(cfg Config) (*Directory, error) {
	if cfg.Source == nil || cfg.Log == nil || cfg.About == nil || cfg.Logger == nil || cfg.Self.ID == peer.None || cfg.Cluster == "" {
		return nil, errors.New("the directory needs a peer, the cluster's label, a source, its events and a logger")
	}
	d := &Directory{
		cfg: cfg, heart: HeartKey(cfg.Cluster), uses: IdentityUseKeys(cfg.Cluster), frames: make(chan []byte, maxQueued),
		differs: make(chan peer.ID, 1), wanted: make(chan struct{}, 1), boots: map[peer.ID]peer.Boot{},
		clears:    map[peer.ID][]uint64{},
		questions: make(chan *reply, maxQuestions), inquiries: map[uint64]*inquiry{},
		replica: replica.New(cfg.Self.ID, cfg.Self.Boot),
		watched: events.NewRing[replica.Event](uint64(cfg.Self.Boot), cfg.Self.Nonce, keptEvents),
	}
	d.taking = contain.Edge{Where: "directory", Logger: cfg.Logger, Count: cfg.ObservePanic}
	d.replica.Renew(time.Now())
	d.digest.Store(d.replica.Digest())
	return d, nil
}

// Carry has what the directory says brought by c from now on.
func (d *Directory) Carry(c Carrier) {
	d.carrier.Store(&carried{c})
	c.SetDigest(d.digest.Load())
}

// Deliver takes a frame of type [wire.TypeDirectory] that came from another
// peer's host. It does not block.
func (d *Directory) Deliver(frame []byte) {
	select {
	case d.frames <- frame:
	default:
		d.counts.dropped.Add(1)
	}
}

// Heard takes the digest that another peer shows, 0 if it shows none: then it
// keeps no directory, and would not answer. It does not block.
func (d *Directory) Heard(from peer.ID, digest uint64) {
	if digest == 0 || digest == d.digest.Load() {
		return
	}
	select {
	case d.differs <- from:
	default: // it will be heard again
	}
}

// Run publishes and exchanges until ctx ends. Its error is always nil.
func (d *Directory) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { d.publish(ctx) })
	work.Go(func() { d.exchange(ctx) })
	work.Go(func() { d.identify(ctx) })
	work.Go(func() { d.answer(ctx) })
	work.Wait()
	return nil
}

// exchange takes in what others say, compares with them, and ends leases.
func (d *Directory) exchange(ctx context.Context) {
	leases := time.NewTimer(leasesEvery)
	defer leases.Stop()
	expiry := time.NewTimer(tickEvery)
	defer expiry.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case frame := <-d.frames:
			if !d.taking.Do(func() { d.take(frame) }) {
				d.counts.refused.Add(1)
			}
		case other := <-d.differs:
			if now := time.Now(); now.Sub(last) >= exchangeEvery {
				last = now
				d.compare(other, false)
			}
			continue
		case <-leases.C:
			leases.Reset(d.cfg.Pace.Round(leasesEvery - leasesEvery/5 + rand.N(2*leasesEvery/5)))
			if c := d.carrier.Load(); c != nil {
				if living := c.Living(); len(living) > 0 {
					d.compare(living[rand.IntN(len(living))], true)
				}
			}
			continue
		case <-expiry.C:
		}
		d.mu.Lock()
		next := d.replica.Tick(time.Now())
		d.settle()
		d.mu.Unlock()
		if wait := time.Until(next); !next.IsZero() {
			expiry.Reset(max(wait, 0))
		} else {
			expiry.Reset(d.cfg.Pace.Round(tickEvery))
		}
	}
}

// compare begins an exchange with another peer.
func (d *Directory) compare(other peer.ID, leases bool) {
	d.mu.Lock()
	m, cluster := d.replica.Hashes(leases), d.cluster
	d.mu.Unlock()
	d.counts.exchanges.Add(1)
	d.send(cluster, other, m)
}

// take takes in a frame of another peer, and answers it.
func (d *Directory) take(frame []byte) {
	contain.Marked(frame)
	f, err := wire.Decode(frame)
	if err != nil {
		d.counts.refused.Add(1)
		return
	}
	body, ok := f.Body.(wire.Directory)
	if !ok || f.From == d.cfg.Self.ID || f.To != d.cfg.Self.ID && f.To != peer.None {
		return // its own, going in circles, or for a peer that was here before
	}
	m, err := replica.Decode(body.Message)
	if err != nil {
		d.counts.refused.Add(1)
		return
	}
	switch m := m.(type) {
	case replica.Clear:
		if d.mayClear(f, m) {
			d.clear(m)
		}
		return
	case replica.Question:
		d.takeQuestion(f, m)
		return
	case replica.Answer:
		d.takeAnswer(f, m)
		return
	}
	answers, cluster, news, ok := d.merge(f, m)
	if !ok {
		d.counts.refused.Add(1)
		return
	}
	d.counts.received.Add(uint64(len(frame)))
	d.send(cluster, f.From, answers...)
	if c := d.carrier.Load(); c != nil && news && f.To == peer.None && c.Queued() < busy {
		c.Broadcast(frame) // whoever gets a broadcast passes it on once
	}
}

// merge takes a message into the copy, and returns what to answer, and whether it
// had something new; false if its author is none to listen to.
func (d *Directory) merge(f *wire.Frame, m replica.Message) (answers []replica.Message, cluster [16]byte, news, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock() // also where it panics
	if !d.may(f) {
		return nil, cluster, false, false
	}
	answers, news = d.replica.Take(m, time.Now())
	d.settle()
	return answers, d.cluster, news, true
}

// may judges the origin of a frame: its author is of this peer's cluster, and
// this is no earlier start of it than was heard of. d.mu is held.
func (d *Directory) may(f *wire.Frame) bool {
	if f.Cluster != d.cluster || d.cluster == ([16]byte{}) || f.Boot < d.boots[f.From] {
		return false
	}
	if _, known := d.boots[f.From]; !known && len(d.boots) >= replica.MaxOrigins {
		d.forgetBoots()
	}
	d.boots[f.From] = f.Boot
	return true
}

// forgetBoots forgets the boots of peers that are there no more: hosts come and
// go as long as this one runs. d.mu is held.
func (d *Directory) forgetBoots() {
	there := map[peer.ID]bool{}
	if c := d.carrier.Load(); c != nil {
		for _, id := range c.Living() {
			there[id] = true
		}
	}
	maps.DeleteFunc(d.boots, func(id peer.ID, _ peer.Boot) bool { return !there[id] })
}

// settle shows what has changed, to other peers and to those who watch. d.mu is
// held.
func (d *Directory) settle() {
	for _, e := range d.replica.Events() {
		d.watched.Put(e)
		if e.Key == d.heart && e.Value != nil {
			d.beat = time.Now()
		}
		d.heardOf(e.Key, e.Value)
	}
	sum := d.replica.Digest()
	if d.digest.Swap(sum) == sum {
		return
	}
	if c := d.carrier.Load(); c != nil {
		c.SetDigest(sum)
	}
}

// send says something to one peer.
func (d *Directory) send(cluster [16]byte, to peer.ID, messages ...replica.Message) {
	c := d.carrier.Load()
	if c == nil || cluster == ([16]byte{}) {
		return
	}
	for _, m := range messages {
		frame := d.frame(cluster, to, m)
		d.counts.sent.Add(uint64(len(frame)))
		c.Send(to, frame)
	}
}

func (d *Directory) frame(cluster [16]byte, to peer.ID, m replica.Message) []byte {
	self := d.cfg.Self
	return wire.Encode(nil, &wire.Frame{
		Header: wire.Header{Cluster: cluster, From: self.ID, To: to, Boot: self.Boot, Nonce: self.Nonce},
		Body:   wire.Directory{Message: replica.Encode(m)},
	})
}
