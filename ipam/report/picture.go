package report

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Picture is what a peer knows at one moment. It is valid until the peer's next step, and is not to be changed.
type Picture struct {
	Now       time.Time
	Self      peer.ID
	Name      peer.Name // of this host
	Standing  peer.Standing
	Level     chronicle.Level // of the protocol that the cluster uses, as far as is known
	Pending   int             // commands of this peer that are not decided
	State     *chronicle.State
	Peers     map[peer.ID]Peer // this peer, the roster, former members, and all others that were heard of
	Pools     []Pool           // in order of their addresses
	Networks  []NetStatus      // of this host, in order of their IDs
	Looked    time.Time        // the engine's last complete list was begun then; zero: there was none since the start
	Conflicts []Conflict
	Refusals  Refusals
	Rest      time.Duration // for how long a freed address rests
	Retry     time.Duration // after how long an address is tried again that another device answered for
	Own       Own           // only [Picture.Status] reads it
	Others    Others        // likewise

	owners map[peer.ID]string // their IDs in words
}

// Peer is what is known of a peer beside the state.
type Peer struct {
	Name    peer.Name // by which it goes now; empty if it has told none
	Address string    // where it is, or was last
	Boot    peer.Boot
	Slot    uint64
	Speaks  chronicle.Level // 0: it has not said
	Heard   time.Time
	Live    bool // it can be reached
}

// Pool is a pool with what this peer has in it.
type Pool struct {
	*chronicle.Pool
	Space    *space.Space
	Networks int                       // of this host
	Gateway  netip.Addr                // which this host has as its own; the zero Addr: none
	Seen     map[addr.Offset]string    // the containers of the engine's last list
	Stranded map[addr.Offset]string    // the networks of those without a container
	Missing  map[addr.Offset]time.Time // begin of the first list that lacked a holder
	Devices  map[addr.Offset]time.Time // since when an address is kept back for another device
	Spare    map[peer.ID]wire.Spare    // what other peers have announced to be free
}

// Conflict is a container or client that has what it should not have.
type Conflict struct {
	Address    netip.Addr // invalid, like Pool, if it is about a network without a pool
	Pool       netip.Prefix
	Text, Next string
}

// Own is what may be wrong with this peer itself.
type Own struct {
	Broken        error  // a broken invariant
	Suspended     string // why it is suspended; empty: it is not
	EndSuspension string // what ends that
	Outside       peer.Outside
	EngineHas     int           // with DatabaseLost: how many networks the engine has
	Met           int           // other peers that it has heard of
	Answered      int           // of them how many have answered while it checks its database
	Founders      int           // how many hosts found the cluster
	FoundersMet   int           // this one among them
	CutOff        bool          // no majority of the voters can be reached
	Undecided     time.Duration // how long its next command has waited although a majority could decide it; 0: not for long
	Lists         Lists
	BootedAlone   bool // no majority has answered since it started
}

// Lists is what a peer with a new database waits for before it chooses an address.
type Lists struct {
	Own      bool      // the list of its engine
	Owners   []peer.ID // unreachable peers, in whose ranges containers of this host have addresses
	Former   bool      // these are only its former self
	Reserved bool      // addresses that its networks reserve and another peer owns
	Others   []peer.ID // peers whose database is new as well
}

// Others is what may be wrong with other peers.
type Others struct {
	Warned  map[peer.ID]int            // how many addresses in use each of them warns of
	Misfits map[peer.ID]wire.Formation // peers that would found a cluster of another size, or with another list
	Foreign [][16]byte                 // other clusters with the same key and label, in order
	Differs map[peer.ID]uint64         // peers whose state differed, and at which slot
	Ruling  Ruling                     // the zone that has a majority of the votes
	Silent  Silence                    // of the one member that cannot be reached, if it is just one
}

// Ruling is a zone whose peers have a majority of the votes, although there are three zones or more.
type Ruling struct {
	Zone         peer.Zone
	Votes, Total int // 0: there is none
	Zones        int // how many there are
}

// Silence is since when a member is silent, and when it is evicted for that; zero: not by itself.
type Silence struct{ Since, Ends time.Time }

// NameOf names a peer.
func (p *Picture) NameOf(id peer.ID) string { return id.Called(p.Peers[id].Name) }

// ref names a peer as a command takes it.
func (p *Picture) ref(id peer.ID) string { return sentence.PeerRef(p.Peers[id].Name, id) }

// alone reports whether this peer is the whole roster.
func (p *Picture) alone() bool { return len(p.State.Roster) == 1 && p.State.Roster[0].ID == p.Self }

// textOf returns the text of an owner's ID. There are few owners, and each has many ranges.
func (p *Picture) textOf(id peer.ID) string {
	text, ok := p.owners[id]
	if !ok {
		if p.owners == nil {
			p.owners = map[peer.ID]string{}
		}
		text = id.String()
		p.owners[id] = text
	}
	return text
}
