package cluster

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Bucket is where the database has the peers of the cluster: under the ID of each its latest known start, its name
// and its address.
const Bucket = "peer"

const (
	formatContact = 1
	// maxAddr is the longest address of a peer that is read back.
	maxAddr = 255
)

// Start tells one start of a peer from all others.
type Start struct {
	Boot  peer.Boot
	Nonce uint64
}

// Contact is what this peer knows of another one, beside the agreed state. Only the start is used for anything that
// must be right.
type Contact struct {
	Name    peer.Name
	Machine uint64
	Addr    string // where it is, or was last, as the carrier wrote it
	Start   Start  // the latest known; on disk for peers of the cluster
	Seat    int    // the place of its host in the list of those that found a cluster, from 1; 0: none

	Since   time.Time // when the carrier last changed its mind about whether it is there
	Heard   time.Time // the last frame; zero: none since this peer started
	Met     time.Time // the last Hello or Welcome, likewise
	Cluster [16]byte
	Slot    uint64
	Spoken  chronicle.Level // the highest level that it speaks; 0: it has not said since either of us started

	alive    bool      // as the carrier says
	admitted time.Time // when it was last admitted, as far as this peer saw
	digest   uint64
}

// Contacts are all other peers that this one has met, or was told of. Use [New].
type Contacts struct {
	out     *effect.Writer
	of      map[peer.ID]*Contact
	foreign map[[16]byte]meeting
	differ  map[peer.ID]uint64 // whose state differed, at which slot
	rules   rule.Set           // that are taken away, in tests
}

// meeting is when this peer first and last met another cluster.
type meeting struct{ first, last time.Time }

// foreignTime is for how long another cluster is remembered after its last frame.
const foreignTime = 5 * time.Minute

// New returns the contacts of a peer that has met nobody.
func New(out *effect.Writer) *Contacts {
	return &Contacts{out: out, of: map[peer.ID]*Contact{}, foreign: map[[16]byte]meeting{}, differ: map[peer.ID]uint64{}}
}

// Configure takes rules away, in tests.
func (s *Contacts) Configure(without rule.Set) { s.rules = without }

// Restore takes in a record of [Bucket].
func (s *Contacts) Restore(key, value []byte) error {
	if len(key) != len(peer.ID{}) {
		return fmt.Errorf("%w: key of a peer has %d bytes", codec.ErrCorrupt, len(key))
	}
	r := codec.NewReader(value)
	r.Format(formatContact, "a peer")
	c := &Contact{}
	c.Start.Boot = peer.Boot(r.Uint("boot of a peer"))
	if nonce := r.Fixed("nonce of a peer", 8); nonce != nil {
		c.Start.Nonce = binary.BigEndian.Uint64(nonce)
	}
	c.Name = peer.Name(r.Bytes("name of a peer", peer.MaxName))
	c.Addr = string(r.Bytes("address of a peer", maxAddr))
	s.of[peer.ID(key)] = c
	return r.Done()
}

// put writes down the start, name and address of a peer.
func (s *Contacts) put(id peer.ID, c *Contact) {
	b := codec.Uint([]byte{formatContact}, uint64(c.Start.Boot))
	b = binary.BigEndian.AppendUint64(b, c.Start.Nonce)
	b = codec.Bytes(codec.Bytes(b, c.Name), c.Addr)
	s.out.Put(Bucket, string(id[:]), b)
}

// save is put for a peer that is, or was, of the cluster.
func (s *Contacts) save(state *chronicle.State, id peer.ID, c *Contact) {
	if c.Start.Boot != 0 && (state.Member(id) != nil || state.Gone(id) != nil) {
		s.put(id, c)
	}
}

// SaveRoster writes down all peers of a cluster that has become this peer's: they were met before they were known to be
// of it.
func (s *Contacts) SaveRoster(v View) {
	for _, id := range v.Others() {
		s.save(v.State, id, s.at(id))
	}
}

// Remember takes over a peer that an earlier peer of this host knew.
func (s *Contacts) Remember(id peer.ID, name peer.Name, addr string, start Start) {
	s.of[id] = &Contact{Name: name, Addr: addr, Start: start}
	s.put(id, s.of[id])
}

// at returns what is known of a peer, to be changed.
func (s *Contacts) at(id peer.ID) *Contact {
	c := s.of[id]
	if c == nil {
		c = &Contact{}
		s.of[id] = c
	}
	return c
}

// Of returns what is known of a peer. It is zero for a peer that this one has not met.
func (s *Contacts) Of(id peer.ID) Contact {
	if c := s.of[id]; c != nil {
		return *c
	}
	return Contact{}
}

// IsEmpty reports whether no other peer is known.
func (s *Contacts) IsEmpty() bool { return len(s.of) == 0 }

// TakePresence takes in what the carrier believes of a peer. It reports whether the peer comes or goes with that, and
// whether its name is another.
func (s *Contacts) TakePresence(v View, id peer.ID, alive bool, name peer.Name, addr string) (turns, renamed bool) {
	c := s.at(id)
	if turns = c.alive != alive; turns {
		c.alive, c.Since = alive, v.Now
	}
	if renamed = name != "" && name != c.Name; renamed {
		c.Name = name
		s.save(v.State, id, c)
	}
	if addr != "" && addr != c.Addr {
		c.Addr = addr
		s.save(v.State, id, c)
	}
	return turns, renamed
}

// TakeSeat takes in which place the host of a peer has in the list of those that found a cluster.
func (s *Contacts) TakeSeat(id peer.ID, seat int) {
	c := s.at(id)
	c.Seat = max(c.Seat, seat)
}

// TakeStart holds the start of which a frame is against the latest known one of its author. A later start is written
// down, and becomes the latest. One that is neither does not count: the frame is late, or the database of its author
// went back in time or was copied.
func (s *Contacts) TakeStart(v View, id peer.ID, is Start) (counts, later bool) {
	c := s.at(id)
	switch {
	case is == c.Start:
		return true, false
	case is.Boot <= c.Start.Boot && !s.rules.Has(rule.Twins):
		return false, false
	}
	c.Start = is
	c.Spoken = 0 // it may be another release
	s.save(v.State, id, c)
	return true, true
}

// Hear takes in the header of a frame that counts. It reports whether it is the first frame since this peer started.
func (s *Contacts) Hear(v View, h *wire.Header) (first bool) {
	c := s.at(h.From)
	first = c.Heard.IsZero()
	c.Heard, c.Cluster, c.Slot, c.digest = v.Now, h.Cluster, h.Slot, h.Digest
	return first
}

// Introduce takes in what a Hello or a Welcome says of its author.
func (s *Contacts) Introduce(v View, id peer.ID, name peer.Name, machine uint64, spoken chronicle.Level) {
	c := s.at(id)
	renamed := name != c.Name
	c.Name, c.Machine, c.Met, c.Spoken = name, machine, v.Now, spoken
	if renamed {
		s.save(v.State, id, c) // the carrier may tell nothing new any more
	}
}

// Admit takes note that a peer has been admitted.
func (s *Contacts) Admit(v View, id peer.ID) {
	c := s.at(id)
	c.admitted = v.Now
	s.save(v.State, id, c)
}

// HearForeign takes in a frame of a peer in another cluster. name is what its Hello says, or empty. It returns when a
// peer of that cluster was first heard from.
func (s *Contacts) HearForeign(v View, h *wire.Header, name peer.Name) (first time.Time) {
	c := s.at(h.From)
	c.Heard, c.Cluster = v.Now, h.Cluster
	if name != "" {
		c.Name = name
	}
	met, known := s.foreign[h.Cluster]
	if !known || v.Now.Sub(met.last) > foreignTime {
		met.first = v.Now
	}
	met.last = v.Now
	s.foreign[h.Cluster] = met
	return met.first
}

// Compare holds the digest of another peer's state against that of this one at the same slot: they differ only by a
// defect. It reports whether this peer is the one that must stop, since it is not with a majority of the voters.
func (s *Contacts) Compare(v View, h *wire.Header, digest uint64) (stop bool) {
	with := []peer.ID{v.Self}
	for _, id := range v.State.Voters() {
		if c := s.of[id]; c != nil && c.Slot == h.Slot && c.digest == digest && c.Cluster == v.State.Cluster {
			with = append(with, id)
		}
	}
	// A peer that was never in the cluster, as far as this one knows, may have been let in by it in a time of which its
	// database knows nothing: where this peer decides alone, nobody else can tell.
	unknown := v.State.Member(h.From) == nil && v.State.Gone(h.From) == nil && v.State.Number(h.From) == 0
	if v.Majority(with) && (!unknown || !v.Majority(with[:1])) {
		s.differ[h.From] = h.Slot
		return false
	}
	return true
}

// Differing returns the peers whose state was another than that of a majority, each with the slot.
func (s *Contacts) Differing() map[peer.ID]uint64 { return s.differ }
