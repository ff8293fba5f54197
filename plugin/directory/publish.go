package directory

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// renewEvery is how often the lease is renewed, and everything compared.
	renewEvery = 5 * time.Minute
	// lookEvery is how often the peer's own record and the pools are looked at
	// when no event asks for it; it is the heartbeat's interval, too.
	lookEvery = time.Minute
	// lookAgain is how long passes at least until an event has them looked at.
	lookAgain = 2 * time.Second
	// gather is how long changes are waited for that go together.
	gather = 200 * time.Millisecond
	// compareEvery is how long passes at least until everything is compared
	// again, since events were missed.
	compareEvery = 10 * time.Second
	// saidAtOnce is how many addresses are said to be free at a time.
	saidAtOnce = 500
	// maxBatches is how many batches of events are gathered.
	maxBatches = 64
	// busy is from how many queued broadcasts on no more are added: what is
	// missing is found by comparing.
	busy = 64
	// maxHeader is what a frame takes beside its message at most.
	maxHeader = 96
	// writeAtOnce is how many keys are written before others may read.
	writeAtOnce = 1000
)

// publish says what this peer has to say, until ctx ends.
func (d *Directory) publish(ctx context.Context) {
	p := &publisher{
		Directory: d, reader: d.cfg.Log.ReadSilent(d.cfg.Log.Last()), all: true,
		now: map[netip.Addr]Address{}, services: newServices(d.cfg, d.containers),
	}
	for ctx.Err() == nil {
		p.again()
		p.work(ctx)
		p.wait(ctx)
	}
}

// publisher is the one goroutine that writes this peer's section.
type publisher struct {
	*Directory
	reader *events.Reader
	all    bool                   // compare everything
	look   bool                   // at the peer's own record and the pools
	now    map[netip.Addr]Address // what became of an address last; without a state: nobody uses it

	services   *services
	said       []said         // what is about to be said, kept for its memory
	identities uint64         // the version of the agreement on label sets that is shown
	shown      []identity.Set // the label sets that are shown
	showAll    bool           // what was shown was removed

	renewed  time.Time
	compared time.Time
	looked   time.Time
	managed  time.Time // when the engine was last asked for the services of its swarm
	beat     time.Time // when the heartbeat was last renewed; zero: it is another peer's
}

// wait waits until something is to be done, and a little longer.
func (p *publisher) wait(ctx context.Context) {
	due := p.looked.Add(lookEvery)
	if p.look {
		due = p.looked.Add(lookAgain)
	}
	if at := p.renewed.Add(renewEvery); at.Before(due) {
		due = at
	}
	if at := p.beat.Add(lookEvery); !p.beat.IsZero() && at.Before(due) {
		due = at
	}
	if at := p.compared.Add(compareEvery); p.all && at.Before(due) {
		due = at
	}
	if at := p.services.due(); !at.IsZero() && at.Before(due) {
		due = at
	}
	until, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	if !p.rest(cancel) {
		return
	}
	defer p.rest(nil)
	p.note(p.reader.Next(until))
	if ctx.Err() != nil {
		return
	}
	if p.reader.Gather(ctx, gather); ctx.Err() != nil {
		return
	}
	for range maxBatches { // what comes faster than this is said in the next round
		list, err := p.reader.Kept()
		p.note(list, err)
		if err == nil && len(list) == 0 {
			return
		}
	}
}

// note notes what has changed.
func (p *publisher) note(list []events.Event, err error) {
	if _, gap := errors.AsType[*events.GapError](err); gap {
		p.all = true
	}
	for i := range list {
		switch e := &list[i]; e.Kind {
		case events.Granted, events.Described, events.Stranger, events.Freed, events.Withdrawn:
			p.now[e.Address] = p.useOf(e)
		case events.PoolRemoved:
			p.all = true // what was held in it is told by nothing else
		default:
			p.look = true
		}
	}
}

// work does what is due.
func (p *publisher) work(ctx context.Context) {
	now := time.Now()
	renew := now.Sub(p.renewed) >= renewEvery
	all := renew || p.all && now.Sub(p.compared) >= compareEvery
	since := now.Sub(p.looked)
	heartbeatDue := !p.beat.IsZero() && now.Sub(p.beat) >= lookEvery
	if all || p.look && since >= lookAgain || since >= lookEvery || heartbeatDue {
		p.looked = now
		if heartbeatDue { // again, or a minute after this look where it fails
			p.beat = time.Time{}
		}
		if all {
			clear(p.now) // what is listed now is newer
		}
		st, err := p.cfg.Source.Snapshot(ctx)
		if err == nil {
			p.self(&st, now)
			p.pools(&st)
			p.locks(ctx, &st)
			p.swarm(ctx, now)
			p.look = false
			if all && st.State != ipam.Left {
				err = p.compareAll(ctx)
			}
			if err == nil && st.State != ipam.Left {
				p.belong(st.Cluster) // only now: others would take a part for all that there is
			}
		}
		if err != nil {
			p.complain(err)
			p.identified() // it asks nobody
			return
		}
	}
	if all {
		p.all, p.compared = false, now
	}
	p.changed()
	p.services.resolve(ctx)
	p.identified()
	p.write(p.services.flush())
	if renew {
		p.renewed = now
		p.mu.Lock()
		p.replica.Renew(now)
		p.mu.Unlock()
	}
	p.tell(renew)
}

// complain logs why nothing can be said: the node has stopped, or ends.
func (p *publisher) complain(err error) {
	p.cfg.Logger.Debug("directory not up to date", logattr.Err(err))
}

// tell broadcasts what is new, unless there is too much of it or of others'.
func (p *publisher) tell(renewed bool) {
	p.mu.Lock()
	p.settle()
	from, cluster := p.told, p.cluster
	p.told = p.replica.Seq()
	m, fits := p.replica.Since(from, gossip.MaxBroadcast-maxHeader, time.Now())
	news := p.told != from || renewed
	p.mu.Unlock()
	c := p.carrier.Load()
	if c != nil && news && fits && cluster != ([16]byte{}) && c.Queued() < busy {
		c.Broadcast(p.frame(cluster, peer.None, m))
	}
}

// write sets keys, or removes those whose value is nil.
func (d *Directory) write(keys []string, values [][]byte) {
	for len(keys) > 0 {
		n := min(len(keys), writeAtOnce)
		d.mu.Lock()
		for i, key := range keys[:n] {
			if values[i] == nil {
				d.replica.Remove(key)
			} else {
				d.replica.Set(key, values[i])
			}
		}
		d.settle()
		d.mu.Unlock()
		keys, values = keys[n:], values[n:]
	}
}

// encode panics for what is no JSON, which no value of this package is.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// fitting returns the first value that is no longer than one may be, with so
// many things in it, or half of them, and so on.
func fitting(most int, with func(n int) any) []byte {
	for n := most; ; n /= 2 {
		if b := encode(with(n)); len(b) <= replica.MaxValue || n == 0 {
			return b
		}
	}
}

// said is what is about to be said of an address.
type said struct {
	address netip.Addr
	key     string
	value   []byte // nil: nobody uses it
	end     Endpoint
}

// changed says what the events say.
func (p *publisher) changed() {
	for a, use := range p.now {
		if p.address(a, use); len(p.said) == saidAtOnce {
			p.say()
		}
	}
	clear(p.now)
	p.say()
}

// address notes what to say of an address, which nobody uses if it has no state.
func (p *publisher) address(a netip.Addr, use Address) {
	s := said{address: a, key: AddressKeys(p.cfg.Cluster) + a.String()}
	if use.Kind == "container" {
		use.Identity = p.services.identityOf(use.Container)
	}
	if use.State != "" {
		s.value = encode(use)
	}
	if use.Kind == "container" && use.Container != "" {
		s.end = Endpoint{Address: a, Pool: use.Pool, Container: use.Container, Name: use.Name}
	}
	p.said = append(p.said, s)
}

// say says what was noted.
func (p *publisher) say() {
	p.mu.Lock()
	for i := range p.said {
		s := &p.said[i]
		if s.value == nil && p.replica.Remove(s.key) || s.value != nil && p.replica.Set(s.key, s.value) { // else the services know it
			p.services.set(s.address, s.end)
		}
	}
	p.settle()
	p.mu.Unlock()
	clear(p.said)
	p.said = p.said[:0]
}

// useOf returns what an event says of its address.
func (p *publisher) useOf(e *events.Event) Address {
	use := Address{Pool: e.Pool, Node: string(p.cfg.Self.Name), Network: p.network(e.Pool)}
	if h := e.Holder; h != nil && e.Kind != events.Freed && e.Kind != events.Withdrawn {
		use.State, use.Kind, use.Container, use.Name, use.MAC, use.Since = stateOf(h.Kind), h.Kind, h.Container, h.Name, h.MAC, h.Since
	}
	return use
}

// network names the Docker networks of this host on a pool.
func (p *publisher) network(pool netip.Prefix) string {
	if p.cfg.Networks == nil {
		return ""
	}
	return strings.Join(p.cfg.Networks(pool), ",")
}

// stateOf is the state of an address that such a holder has, as in
// [ipam.AddressStatus].
func stateOf(kind string) string {
	switch kind {
	case "gateway", "host", "stranger":
		return kind
	}
	return "held"
}

// compareAll says of every address what is so now. It goes by portions: all at
// once would be several times what is kept of it. It waits for what is true now:
// by an older status what a new pool has would seem to be gone.
func (p *publisher) compareAll(ctx context.Context) error {
	had := p.addresses()
	there := make([]bool, len(had))
	for q, more := (ipam.Listing{Held: true}), true; more; more = q.After.IsValid() {
		if err := ctx.Err(); err != nil {
			return err // with very much held this takes a second, for which the end does not wait
		}
		list, err := p.cfg.Source.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range list.Addresses {
			st := &list.Addresses[i]
			p.address(st.Address, Address{
				Pool: st.Pool, Node: st.Peer, Network: p.network(st.Pool), State: st.State, Kind: st.Kind,
				Container: st.Container, Name: st.Name, MAC: st.MAC, Since: st.Since,
			})
			if at, known := slices.BinarySearchFunc(had, st.Address, netip.Addr.Compare); known {
				there[at] = true
			}
		}
		p.say()
		q.After = list.Next
	}
	for i, a := range had {
		if there[i] {
			continue
		}
		if p.address(a, Address{}); len(p.said) == saidAtOnce {
			p.say()
		}
	}
	p.say()
	return nil
}

// addresses returns the addresses of which this peer says something, in order.
func (p *publisher) addresses() (out []netip.Addr) {
	prefix := AddressKeys(p.cfg.Cluster)
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.replica.OwnAfter(prefix, 0) {
		if a, err := netip.ParseAddr(e.Key()[len(prefix):]); err == nil {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// containers returns containers of which this peer has said behind a change that
// they have addresses, some at a time, and up to which change it looked.
func (d *Directory) containers(after uint64, limit int) (list []Endpoint, upTo uint64) {
	prefix := AddressKeys(d.cfg.Cluster)
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.replica.OwnAfter(prefix, after) {
		var use Address
		a, err := netip.ParseAddr(e.Key()[len(prefix):])
		if err != nil || json.Unmarshal(e.Value(), &use) != nil || use.Kind != "container" || use.Container == "" {
			continue
		}
		list = append(list, Endpoint{Address: a, Pool: use.Pool, Container: use.Container, Name: use.Name})
		if len(list) == limit {
			return list, e.Seq
		}
	}
	return list, d.replica.Seq()
}
