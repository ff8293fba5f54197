package pool

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/holding"
	"github.com/ringlet/ringlet/ipam/space"
)

// Restoration puts the addresses of a database back. Use [Pools.Restore].
type Restoration struct {
	pools  *Pools
	last   *Pool // of the last address: most lie side by side
	memory space.Memory
}

// Restore begins to put the addresses of a database back.
func (s *Pools) Restore() *Restoration { return &Restoration{pools: s} }

// Visit puts an address back, by its record of [holding.Bucket]. A pool and its addresses go in one write, so none is of a
// pool that is gone.
func (r *Restoration) Visit(key, value []byte) error {
	k, o, err := holding.ParseKey(key)
	if err != nil {
		return err
	}
	if r.last == nil || r.last.Key != k {
		cp := r.pools.State.Pool(k)
		if cp == nil {
			return fmt.Errorf("%w: it lies in pool %v, which does not exist", codec.ErrCorrupt, k)
		}
		if r.last != nil {
			r.last.Space.Index()
		}
		r.last = r.pools.For(cp)
	}
	p := r.last
	var rec space.Record
	name, ref, packed, err := holding.Parse(value, &rec)
	if err != nil {
		return err
	}
	if err := p.Space.PutText(o, &rec, name, ref, packed, &r.memory); err != nil {
		return fmt.Errorf("%w: pool %v: %w", codec.ErrCorrupt, p.CIDR, err)
	}
	if rec.Kind == space.Gateway && rec.State == space.Held {
		p.Gateway, p.HasGateway = o, true
	}
	if rec.Kind == space.Stranger && rec.State == space.Held && !IsWarned(rec) {
		p.watchStranger(o, time.Unix(0, rec.Since))
	}
	return nil
}

// Finish has the spaces follow the rings, once all addresses are back. The error is a defect.
func (r *Restoration) Finish() (err error) {
	for _, cp := range r.pools.State.Pools {
		p := r.pools.For(cp)
		if e := p.FollowRing(); err == nil {
			err = e
		}
		p.Space.Seal()
	}
	return err
}
