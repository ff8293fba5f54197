package directory

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// renewEvery is how often the lease is renewed, and everything compared.
	renewEvery = 5 * time.Minute
	// lookEvery is how often the peer's own record and the pools are looked at
	// when no event asks for it; it is the heartbeat's interval, too.
	lookEvery = time.Minute
	// gather is how long changes are waited for that go together.
	gather = 200 * time.Millisecond
	// maxSingle is how many changed addresses are looked up one by one.
	maxSingle = 1024
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
	p := &publisher{Directory: d, reader: d.cfg.Log.Read(d.cfg.Log.Last()), all: true}
	for ctx.Err() == nil {
		p.work(ctx)
		p.wait(ctx)
	}
}

// publisher is the one goroutine that writes this peer's section.
type publisher struct {
	*Directory
	reader  *events.Reader
	all     bool // compare everything
	look    bool // at the peer's own record and the pools
	changed map[netip.Addr]bool

	renewed time.Time
	looked  time.Time
	beat    time.Time // the heartbeat's last minute
}

// wait waits until something is to be done, and a little longer.
func (p *publisher) wait(ctx context.Context) {
	due := p.looked.Add(lookEvery)
	if at := p.renewed.Add(renewEvery); at.Before(due) {
		due = at
	}
	until, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	p.note(p.reader.Next(until))
	if ctx.Err() != nil {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(gather):
	}
	for {
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
		switch e := &list[i]; {
		case e.Address.IsValid() && !e.Last.IsValid() && e.Kind != events.RangeMoved:
			if p.changed == nil {
				p.changed = map[netip.Addr]bool{}
			}
			p.changed[e.Address] = true
		default:
			p.look = true
		}
		if list[i].Kind == events.PoolRemoved {
			p.all = true // what was held in it is told by nothing else
		}
	}
}

// work does what is due.
func (p *publisher) work(ctx context.Context) {
	now := time.Now()
	renew := now.Sub(p.renewed) >= renewEvery
	p.all = p.all || renew || len(p.changed) > maxSingle
	if p.all || p.look || now.Sub(p.looked) >= lookEvery {
		p.looked = now
		st, err := p.cfg.Source.Snapshot(ctx)
		if err != nil {
			p.complain(err)
			return
		}
		p.self(&st, now)
		p.pools(&st)
		if p.all {
			if err := p.compareAll(ctx, &st); err != nil {
				p.complain(err)
				return
			}
			p.changed = nil
		}
		p.all, p.look = false, false
	}
	for a := range p.changed {
		if err := p.compareOne(ctx, a); err != nil {
			p.complain(err)
			return
		}
		delete(p.changed, a)
	}
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

// compareOne says of one address what is so now.
func (p *publisher) compareOne(ctx context.Context, a netip.Addr) error {
	st, err := p.cfg.Source.Who(ctx, a)
	if err != nil && !errors.Is(err, ipam.ErrPoolNotFound) {
		return err
	}
	key, value := p.address(a, &st)
	p.write([]string{key}, [][]byte{value})
	return nil
}

// compareAll says of every address what is so now.
func (p *publisher) compareAll(ctx context.Context, st *ipam.Status) error {
	var keys []string
	var values [][]byte
	there := map[string]bool{}
	for _, pool := range st.Pools { // one by one: who needs the node meanwhile gets it
		if st.State == ipam.Left {
			break
		}
		list, err := p.cfg.Source.Addresses(ctx, pool.Pool.String())
		if errors.Is(err, ipam.ErrPoolNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range list {
			if key, value := p.address(list[i].Address, &list[i]); value != nil {
				there[key] = true
				keys, values = append(keys, key), append(values, value)
			}
		}
	}
	p.mu.Lock()
	had := p.replica.Own(AddressKeys(p.cfg.Cluster))
	p.mu.Unlock()
	for _, key := range had {
		if !there[key] {
			keys, values = append(keys, key), append(values, nil)
		}
	}
	p.write(keys, values)
	return nil
}

// address returns what to say of an address: nothing unless it is in use here.
func (p *publisher) address(a netip.Addr, st *ipam.AddressStatus) (key string, value []byte) {
	key = AddressKeys(p.cfg.Cluster) + a.String()
	switch st.State {
	case "held", "gateway", "host", "stranger":
		return key, encode(Address{
			Pool: st.Pool, Node: st.Peer, State: st.State, Kind: st.Kind, Container: st.Container, Name: st.Name, MAC: st.MAC, Since: st.Since,
		})
	}
	return key, nil
}
