package report

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// Verdict is the one-word answer to "is it fine?".
type Verdict string

// The verdicts.
const (
	Fine     Verdict = "fine"     // everything works
	Degraded Verdict = "degraded" // works, and somebody should look
	Failed   Verdict = "failed"   // hands out nothing, or an address is used twice
)

// Status is what a peer knows of itself and its cluster, as the commands and
// the API show it. It is a snapshot: nothing in it changes.
type Status struct {
	AsOf     time.Time     `json:"as_of,omitzero"` // when it was so, by this peer's clock
	Verdict  Verdict       `json:"verdict"`
	State    peer.Standing `json:"state"`
	Cluster  string        `json:"cluster"` // cluster ID, 32 hexadecimal digits
	Slot     uint64        `json:"slot"`    // last decided slot known here
	Level    uint64        `json:"level"`   // of the protocol, that the cluster uses; 0: none yet
	Pending  int           `json:"pending"` // commands of this peer that are not decided yet
	Self     PeerStatus    `json:"self"`
	Peers    []PeerStatus  `json:"peers"`
	Voters   []string      `json:"voters"` // peer IDs, in order
	Pools    []PoolStatus  `json:"pools"`
	Networks []NetStatus   `json:"networks"`
	Problems []Problem     `json:"problems"`
}

// PeerStatus is one peer of the roster, or one that was evicted from it.
type PeerStatus struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Zone  string `json:"zone,omitempty"`
	State string `json:"state"` // filling, active, draining, evicted
	Boot  uint64 `json:"boot"`
	Voter bool   `json:"voter"`
	// Reachable says whether this peer can reach it now; Slot is the last slot
	// that it is known to know.
	Reachable bool      `json:"reachable"`
	Slot      uint64    `json:"slot"`
	Speaks    uint64    `json:"speaks"`         // the highest level of the protocol; 0: it has not said yet
	Address   string    `json:"address"`        // where it is, or was last; empty if not known
	Heard     time.Time `json:"heard,omitzero"` // when it was last heard of, since this peer started
	// Failed says that something is wrong there, as the host says of itself. The peer does not know it of others: its process adds it.
	Failed bool `json:"failed,omitempty"`
	// Health is what its health address does; zero: it was not asked there. The peer does not know it: its process adds it.
	Health HealthStatus `json:"health,omitzero"`
}

// HealthStatus is what became of the last question to the health address of another host.
type HealthStatus struct {
	Address string    `json:"address"`
	Answers bool      `json:"answers"`
	Since   time.Time `json:"since"`           // it has answered, or not
	Error   string    `json:"error,omitempty"` // why it does not answer
}

// PoolStatus counts the addresses of one pool. The counts from Held to
// Quarantined add up to Size.
type PoolStatus struct {
	Pool        netip.Prefix `json:"pool"`
	Name        string       `json:"name"`
	Size        uint64       `json:"size"`         // 2^64-1 for a /64
	Held        uint64       `json:"held"`         // of other peers as many as they announced, a minute late at most
	HeldHere    uint64       `json:"held_here"`    // those on this peer
	Resting     uint64       `json:"resting"`      // likewise
	RestingHere uint64       `json:"resting_here"` // those on this peer
	Ready       uint64       `json:"ready"`        // free, in some peer's ranges
	Free        uint64       `json:"free"`         // free, nobody's
	Reserved    uint64       `json:"reserved"`
	Quarantined uint64       `json:"quarantined"`
	Mine        uint64       `json:"mine"`   // free or resting, in this peer's ranges
	Chosen      bool         `json:"chosen"` // the subnet was chosen by ringlet
	Origin      string       `json:"origin"` // who it was made for: "network", "choice" (likewise, chosen) or "operator"
	// Networks is how many networks of this host are on it: as many as its engine has asked
	// for, or lists, which are more where the database is younger than they are.
	Networks int `json:"networks"`
	// Gateway is the gateway that this host has for itself there, which counts as held; missing where networks have the same one on
	// all hosts, or none.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// NetworkNames are the names of those that the engine lists, in order. The peer does not know them: its process adds them.
	NetworkNames []string `json:"network_names,omitempty"`
	// Holders lists the ranges of the pool in address order, merged by owner.
	Holders []RangeStatus `json:"holders,omitempty"`
	// Shares sums up the ranges of each peer that owns any, by ID.
	Shares []ShareStatus `json:"shares,omitempty"`
}

// ShareStatus is what one peer has of a pool.
type ShareStatus struct {
	Owner   string `json:"owner"` // peer ID
	Owned   uint64 `json:"owned"`
	Held    uint64 `json:"held"`
	Resting uint64 `json:"resting"`
	// Announced says that the peer has announced what it holds, or is this one; else
	// Held is 0, and nobody here knows better.
	Announced bool `json:"announced"`
}

// RangeStatus is one range of a pool's ring.
type RangeStatus struct {
	Start   netip.Addr `json:"start"`
	End     netip.Addr `json:"end"`   // the last address
	Owner   string     `json:"owner"` // peer ID, "free" or "reserved"
	Version uint64     `json:"version"`
	Held    uint64     `json:"held"`           // by this peer
	Kind    string     `json:"kind,omitempty"` // of a reservation
	Note    string     `json:"note,omitempty"` // of a reservation
}

// NetStatus is a network of this host, as the engine asked for it.
type NetStatus struct {
	ID    poolid.ID    `json:"id"`
	Pool  netip.Prefix `json:"pool"`
	Range netip.Prefix `json:"range"`
	Count int          `json:"count"` // how many networks asked for just this
}

// AddressStatus is one address that is, or was, held on this peer.
type AddressStatus struct {
	Address   netip.Addr   `json:"address"`
	Pool      netip.Prefix `json:"pool"`
	Peer      string       `json:"peer"`  // name of the peer that holds it
	State     string       `json:"state"` // held, gateway (this host's), host (an interface of it), stranger (something else on the network), resting, ready (free in this peer's ranges), free, reserved
	Kind      string       `json:"kind"`  // container, gateway, client, stranger; or the kind of a reservation
	Container string       `json:"container"`
	Name      string       `json:"name"`
	MAC       string       `json:"mac"`
	Since     time.Time    `json:"since,omitzero"` // of the state; missing where nobody knows
}

// Problem is something that somebody should do something about.
type Problem struct {
	Code  string `json:"code"`  // stable
	Text  string `json:"text"`  // what is wrong
	Next  string `json:"next"`  // the command or step that mends it
	Level string `json:"level"` // degraded or failed
	// Address is the one that it is about, if it is about one.
	Address netip.Addr `json:"address,omitzero"`
}

// Status returns what this peer knows of itself and its cluster.
func (p *Picture) Status() Status {
	s := Status{
		AsOf: p.Now.UTC(), Verdict: Fine, State: p.Standing, Cluster: hex.EncodeToString(p.State.Cluster[:]),
		Slot: p.State.Slot, Level: uint64(p.Level), Pending: p.Pending,
		Peers: []PeerStatus{}, Voters: []string{}, Pools: make([]PoolStatus, len(p.Pools)), Networks: p.Networks,
	}
	s.Self = p.peer(chronicle.Member{Founder: chronicle.Founder{ID: p.Self}}, string(p.Standing))
	for _, member := range p.State.Roster {
		status := p.peer(member, member.Phase.String())
		if member.ID == p.Self {
			s.Self = status
		}
		s.Peers = append(s.Peers, status)
	}
	for _, gone := range p.State.Former {
		if !gone.Forgotten {
			s.Peers = append(s.Peers, p.peer(gone.Member, "evicted"))
		}
	}
	for _, id := range p.State.Voters() {
		s.Voters = append(s.Voters, id.String())
	}
	for i := range p.Pools {
		s.Pools[i] = p.PoolStatus(&p.Pools[i], true)
	}
	s.Problems = p.problems(s.Pools)
	for _, problem := range s.Problems {
		if problem.Level == string(Failed) {
			s.Verdict = Failed
		} else if s.Verdict == Fine {
			s.Verdict = Degraded
		}
	}
	return s
}

// peer shows one peer.
func (p *Picture) peer(member chronicle.Member, state string) PeerStatus {
	known := p.Peers[member.ID]
	return PeerStatus{
		ID: member.ID.String(), Name: string(known.Name), Zone: string(member.Zone), State: state,
		Boot: uint64(max(member.Boot, known.Boot)), Voter: slices.Contains(p.State.Voters(), member.ID),
		Reachable: known.Live, Slot: known.Slot, Speaks: uint64(known.Speaks), Address: known.Address, Heard: known.Heard,
	}
}
