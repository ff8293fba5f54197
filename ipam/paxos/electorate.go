package paxos

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/peer"
)

// MaxVoters is the largest electorate. More voters would survive more losses
// than happen at once, and each costs every decision four messages.
const MaxVoters = 7

// Electorate is the peers whose answers decide one slot. Each has one vote;
// where their number is even, the first has two. An even number of equal votes
// has majorities no smaller than the next odd one, so without the second vote
// of the first, two hosts would survive the loss of neither.
//
// The zero Electorate has no voter and no majority. An Electorate does not
// change and is safe for concurrent use.
type Electorate struct {
	voters []peer.ID // in roster order
	extra  int       // votes of the first beyond one
	total  int       // votes of all, made odd by one that nobody has if need be
}

// NewElectorate returns the electorate of these voters, 1 to [MaxVoters] peers
// in the order of the roster. It refuses another number of them, a peer that
// is named twice and [peer.None]. The slice is copied.
func NewElectorate(voters []peer.ID) (Electorate, error) {
	if n := len(voters); n < 1 || n > MaxVoters {
		return Electorate{}, fmt.Errorf("an electorate has 1 to %d voters, not %d", MaxVoters, n)
	}
	for i, v := range voters {
		if v == peer.None {
			return Electorate{}, fmt.Errorf("voter %d of the electorate has no ID", i+1)
		}
		if slices.Contains(voters[:i], v) {
			return Electorate{}, fmt.Errorf("peer %s is twice in the electorate", v)
		}
	}
	e := Electorate{voters: slices.Clone(voters), total: len(voters)}
	if len(voters)%2 == 0 {
		e.extra = 1
		e.total++
	}
	return e, nil
}

// MaxFounders is how many hosts can found a cluster together.
const MaxFounders = 1024

// NewFounders returns the electorate of slot 1, for which there is no roster
// yet: size hosts, 1 to [MaxFounders], known by their seats alone, with one
// vote each. Where their number is even, none has a second vote, for there is
// no order in which all agree who is the first.
func NewFounders(size int) (Electorate, error) {
	if size < 1 || size > MaxFounders {
		return Electorate{}, fmt.Errorf("1 to %d hosts found a cluster, not %d", MaxFounders, size)
	}
	e := Electorate{voters: make([]peer.ID, size), total: size | 1}
	for i := range e.voters {
		e.voters[i] = Seat(i + 1)
	}
	return e, nil
}

// Seat returns the ID by which an electorate of founders knows the host with
// that number, from 1. It is no peer's.
func Seat(n int) peer.ID {
	id := peer.ID{'s', 'e', 'a', 't'}
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// Voters returns the voters in roster order. The slice is the caller's.
func (e Electorate) Voters() []peer.ID { return slices.Clone(e.voters) }

// Votes returns how many votes a peer has: 0 for a peer that is no voter.
func (e Electorate) Votes(id peer.ID) int {
	switch slices.Index(e.voters, id) {
	case -1:
		return 0
	case 0:
		return 1 + e.extra
	default:
		return 1
	}
}

// Total returns the votes of all voters. It is odd, so there is no tie: of an
// even number of founders one more is counted than can be cast.
func (e Electorate) Total() int { return e.total }

// Majority reports whether these peers have more than half of the votes. A
// peer that is named twice counts once, one that is no voter does not count.
// Any two majorities have a voter in common.
func (e Electorate) Majority(peers []peer.ID) bool {
	votes := 0
	for i, v := range e.voters {
		if !slices.Contains(peers, v) {
			continue
		}
		votes++
		if i == 0 {
			votes += e.extra
		}
	}
	return 2*votes > e.total
}
