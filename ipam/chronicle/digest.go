package chronicle

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/table"
)

// hashes are the hashes of parts of a state that few slots change. One that is
// 0 is to be made.
type hashes struct {
	peers   uint64 // of the roster and of who was evicted
	numbers uint64 // sum of those of all authors
}

// poolHashes are those of a pool. They hold while the ring has that sum.
type poolHashes struct {
	head  uint64 // of all but the ring; 0: to be made
	sum   uint64
	whole uint64 // of both
}

// Digest returns a hash of the state. Peers at the same slot have the same,
// or one of them is wrong.
//
// It is made of the hashes of the parts, each of which is kept until a command
// comes that may change it, and of [ring.Ring.Sum], which the rings keep. So a
// slot that moves a range costs the same however much there is, but for some
// nanoseconds for each pool. What a part hashes is its encoding, which leaves
// nothing out: the digest depends on what is in the state, not on how it got there.
func (s *State) Digest() uint64 {
	if s.kept.peers == 0 {
		s.kept.peers = s.hashPeers()
	}
	if s.kept.numbers == 0 {
		s.kept.numbers = s.hashNumbers()
	}
	var pools uint64 // a sum, as each of them has its key in it
	for _, p := range s.Pools {
		pools += p.hash()
	}
	var b [16 + 6*8]byte
	copy(b[:], s.Cluster[:])
	for i, n := range [...]uint64{s.Slot, uint64(s.Level), s.kept.peers, s.kept.numbers, uint64(len(s.Pools)), pools} {
		binary.BigEndian.PutUint64(b[16+8*i:], n)
	}
	sum := table.Hash(0, 0, b[:])
	if h := s.Identities.Hash(); h != 0 {
		sum = table.Hash(sum, h, nil)
	}
	if h := s.Locks.Hash(); h != 0 {
		sum = table.Hash(sum, h, []byte("locks"))
	}
	return sum
}

func (s *State) hashPeers() uint64 { return table.Hash(0, 0, s.appendZones(s.appendPeers(nil))) }

// hash returns a hash of the pool.
func (p *Pool) hash() uint64 {
	if sum := p.Ring.Sum(); p.kept.head == 0 || p.kept.sum != sum {
		if p.kept.head == 0 {
			p.kept.head = p.hashHead()
		}
		p.kept.sum, p.kept.whole = sum, table.Hash(p.kept.head, sum, nil)
	}
	return p.kept.whole
}

func (p *Pool) hashHead() uint64 { return table.Hash(0, 0, p.appendHead(nil)) }

func (s *State) hashNumbers() (sum uint64) {
	for author, n := range s.numbers {
		sum += hashNumber(author, n)
	}
	return sum
}

func hashNumber(author peer.ID, n uint64) uint64 { return table.Hash(n, 0, author[:]) }

// setNumber notes the highest number of an author. Almost every slot does, so
// that the sum is kept up.
func (s *State) setNumber(author peer.ID, n uint64) {
	if s.kept.numbers != 0 {
		if was, ok := s.numbers[author]; ok {
			s.kept.numbers -= hashNumber(author, was)
		}
		s.kept.numbers += hashNumber(author, n)
	}
	s.numbers[author] = n
}

// touch forgets the hashes of what an action may change. An action that is not
// known here may change anything.
func (s *State) touch(action Action) {
	var key PoolKey
	switch a := action.(type) {
	case CreatePool, DeletePool, Raise, Open, Close, Give, Borrow, Identify, Collect, Lock, Unlock, Expire:
		return // which pools there are, the level, the rings, the identities, and the locks: nothing of that is kept here
	case SetZone:
		s.kept.peers = 0
		return
	case Reserve:
		key = a.Pool
	case Unreserve:
		key = a.Pool
	case NamePool:
		key = a.Pool
	case Use:
		key = a.Pool
	case Unuse:
		key = a.Pool
	default:
		s.kept.peers = 0
		for _, p := range s.Pools {
			p.Touch()
		}
		return
	}
	if p := s.Pool(key); p != nil {
		p.Touch()
	}
}

// Touch forgets what the digest keeps of a pool. Who changes its fields by
// other means than a slot, as tests do, has to call it; the ring sees to itself.
func (p *Pool) Touch() { p.kept.head = 0 }

// stale reports whether a hash is kept and not that of what is.
func stale(kept uint64, now func() uint64) bool { return kept != 0 && kept != now() }

// checkHashes reports hashes that are kept and are not of what there is.
func (s *State) checkHashes() error {
	var errs []error
	if stale(s.kept.peers, s.hashPeers) || stale(s.kept.numbers, s.hashNumbers) {
		errs = append(errs, errors.New("the digest is of other peers or numbers"))
	}
	for _, p := range s.Pools {
		if stale(p.kept.head, p.hashHead) {
			errs = append(errs, fmt.Errorf("the digest is of another pool than %v", p.CIDR))
		}
	}
	return errors.Join(errs...)
}
