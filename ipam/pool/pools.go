package pool

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/doubt"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/warning"
)

// Parts are what the pools write to and ask. None is nil.
type Parts struct {
	Out       *effect.Writer
	Me        *start.Start
	Engine    *engine.Engine
	Doubts    *doubt.Doubts
	Conflicts *conflict.Conflicts
	Warnings  *warning.Warnings
	Database  *newdb.Database
	State     *chronicle.State
	Edition   *uint64 // tells one content of the state from all others; never 0
}

// Config is how the pools are to behave.
type Config struct {
	Name            peer.Name
	Grace, CallTime time.Duration        // see ipam.Config
	Rules           rule.Set             // that are taken away
	NameOf          func(peer.ID) string // how people call a peer
	Changed         func()               // is called when an address was freed that a request may wait for
}

// Pools is what this peer knows of the pools of the state. Use [New].
type Pools struct {
	Parts
	Config

	all            map[chronicle.PoolKey]*Pool
	sorted         []*Pool      // nil when pools came or went
	served         servedPlaces // what is looked up in every call
	unscanned      []*Pool      // where to look for addresses of the host as soon as others can be asked
	strangersUntil time.Time    // when to look at the strangers again; zero: there are none
	listing        bool         // a list of the engine is being taken in
}

// New returns no pools. [Pools.Configure] is to follow.
func New(parts Parts) *Pools {
	return &Pools{Parts: parts, all: map[chronicle.PoolKey]*Pool{}, served: makeServed(leastServed)}
}

// Configure says how the pools are to behave.
func (s *Pools) Configure(cfg Config) { s.Config = cfg }

// Lacks reports whether one of the rules is taken away.
func (s *Pools) Lacks(rules rule.Set) bool { return s.Rules.Has(rules) }

// For returns what this peer knows of a pool of the state, nothing yet if it has not been asked before.
func (s *Pools) For(cp *chronicle.Pool) *Pool {
	p := s.all[cp.Key]
	if p == nil {
		p = &Pool{Pool: cp, of: s, Space: space.NewCounting(addr.Size(cp.CIDR), s.Engine.Counter()), Here: s.Engine.On(cp.CIDR)}
		s.all[cp.Key], s.sorted = p, nil
	}
	return p
}

// Len returns how many pools there are.
func (s *Pools) Len() int { return len(s.all) }

// Of returns the pool with a key, or nil.
func (s *Pools) Of(k chronicle.PoolKey) *Pool { return s.all[k] }

// On returns the pool with just that subnet, or nil.
func (s *Pools) On(cidr netip.Prefix) *Pool {
	if cp := s.State.PoolOf(cidr); cp != nil {
		return s.all[cp.Key]
	}
	return nil
}

// At returns the pool whose subnet has the address, or nil.
func (s *Pools) At(a netip.Addr) *Pool {
	for _, p := range s.all {
		if p.CIDR.Contains(a.Unmap()) {
			return p
		}
	}
	return nil
}

// Sorted returns the pools in order of their addresses. The list is not to be changed, and stays what it is when pools come
// or go.
func (s *Pools) Sorted() []*Pool {
	if s.sorted == nil {
		s.sorted = make([]*Pool, 0, len(s.all))
		for cp := range s.State.ByAddress() {
			if p := s.all[cp.Key]; p != nil {
				s.sorted = append(s.sorted, p)
			}
		}
	}
	if len(s.sorted) < len(s.all) { // of a slot that is being followed, some are gone from the state
		s.sorted = slices.Collect(maps.Values(s.all))
		slices.SortFunc(s.sorted, func(a, b *Pool) int { return chronicle.SortedBy(a.Pool, b.Pool) })
	}
	return s.sorted
}

// Drop forgets a pool that was deleted, and what was remembered of it: no host has anything there, as the state says that
// none uses it.
func (s *Pools) Drop(p *Pool) {
	for o := range p.Records() {
		p.forgetRecord(o)
	}
	s.Conflicts.DropPool(p.Key)
	delete(s.all, p.Key)
	s.sorted = nil
	s.Engine.RemovePool(p.Here)
	*s.Out.Note() = effect.Note{Kind: effect.NotePoolDeleted, Pool: p.CIDR}
}

// LookSoon has this peer look for the host's addresses in a pool in this step, if the host itself has one in a range that
// has just become some peer's to hand out: within a second, until it would look anyway, others could give it to a container.
func (s *Pools) LookSoon(p *Pool, r addr.Range) {
	if slices.Contains(s.unscanned, p) {
		return
	}
	for _, a := range s.Engine.Host() {
		if o, ok := addr.OffsetOf(p.CIDR, a.Addr()); ok && r.Contains(o) {
			s.unscanned = append(s.unscanned, p)
			return
		}
	}
}

// HasUnscanned reports whether there is a pool that [Pools.LookSoon] was about.
func (s *Pools) HasUnscanned() bool { return len(s.unscanned) > 0 }

// TakeUnsighted returns these pools, of which some may be gone, and forgets them.
func (s *Pools) TakeUnsighted() []*Pool {
	pools := s.unscanned
	s.unscanned = nil
	return pools
}

// AwaitList has the next list of the engine tell again of every pool which of its addresses are in use.
func (s *Pools) AwaitList() {
	for _, p := range s.all {
		p.Surveyed = false
	}
}

// HasUntaken reports whether this host has itself what is another peer's, or was when last looked at.
func (s *Pools) HasUntaken() bool {
	return slices.ContainsFunc(s.Sorted(), func(p *Pool) bool { return p.Untaken })
}

// HasStrays reports whether something is held that this peer does not own.
func (s *Pools) HasStrays() bool {
	return slices.ContainsFunc(s.Sorted(), func(p *Pool) bool { return p.Space.Strays() > 0 })
}

// Used returns the addresses that containers, networks and clients of this host use, or the host itself, as far as this peer
// knows, in order. Which containers live the engine's last list tells, and before the first one the records do: after a boot
// those may name many that are gone.
func (s *Pools) Used() []netip.Addr {
	var out []netip.Addr
	for _, p := range s.Sorted() {
		for o, kind := range p.Space.Kinds() {
			switch {
			case kind == space.Stranger, kind == space.Kept:
			case p.HasEndpoint(o) && !s.Engine.Complete().IsZero(): // the list tells which of them live
			default:
				out = append(out, addr.Nth(p.CIDR, o))
			}
		}
		for o := range p.Seen {
			out = append(out, addr.Nth(p.CIDR, o))
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// InTheWay returns a prefix in which this host has addresses, routes or networks, though it is no pool's, and which overlaps
// the subnet; invalid if there is none.
func (s *Pools) InTheWay(c netip.Prefix) netip.Prefix {
	foreign := func(p netip.Prefix) bool { return p.Overlaps(c) && s.On(p) == nil }
	for _, h := range s.Engine.Host() {
		if h = h.Masked(); foreign(h) {
			return h
		}
	}
	for _, r := range s.Engine.Routed() {
		if foreign(r) {
			return r
		}
	}
	for _, l := range s.Engine.Subnets() {
		if foreign(l) && s.Engine.RemovedAt(l) == 0 { // one whose pool went since the list is a network that went
			return l
		}
	}
	return netip.Prefix{}
}

// ErrNoSubnet says that no subnet is left to choose, and what is in the way of those that there are.
func (s *Pools) ErrNoSubnet(bits int, universe, avoid []netip.Prefix) error {
	if !slices.ContainsFunc(universe, func(u netip.Prefix) bool { return u.Bits() <= bits }) {
		return sentence.SubnetTooWide(bits, universe)
	}
	there := func(all []netip.Prefix) []netip.Prefix {
		return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return !slices.ContainsFunc(universe, p.Overlaps) })
	}
	foreign := func(all []netip.Prefix) []netip.Prefix { // what is a pool's is counted there
		return slices.DeleteFunc(there(all), func(p netip.Prefix) bool { return s.On(p) != nil })
	}
	pools := 0
	for _, u := range universe {
		pools += len(s.State.Overlapping(u))
	}
	host := foreign(append(masked(s.Engine.Host()), s.Engine.Routed()...))
	return sentence.NoSubnet(bits, universe, pools, there(avoid), host, foreign(s.Engine.Subnets()))
}

func masked(all []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, p := range all {
		out[i] = p.Masked()
	}
	return out
}

// HolderText names what has held an address here, since then.
func (s *Pools) HolderText(h space.Holder, since int64) string {
	return sentence.Holder(s.Name, h, since)
}

// SetListing says whether a list of the engine is being taken in.
func (s *Pools) SetListing(is bool) { s.listing = is }

// IsListing reports whether a list of the engine is being taken in.
func (s *Pools) IsListing() bool { return s.listing }
