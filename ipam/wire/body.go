package wire

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
)

// MaxText is the longest text in a frame, in bytes.
const MaxText = 1024

// Formation says which slot 1 a message is about: peers that are to found a
// cluster together must have been told the same. It is zero in messages about
// other slots.
type Formation struct {
	Size uint32 // how many hosts found it
	List uint64 // hash of the list of hosts, 0 if there is only a number
}

// Listing is how far a peer with a new database has come with the addresses
// that containers on its host have, as its engine lists them.
type Listing byte

// The steps of a listing. Their numbers are never reused.
const (
	Listed   Listing = 0 // the sender holds them, or its database is not new
	Unlisted Listing = 1 // the engine has yet to list them
	Untaken  Listing = 2 // it has, and some of them are still to be taken in
)

// The bodies.
type (
	// Hello says that its sender is here: at its start to all it knows, and
	// while it looks for a cluster. Who gets it answers with a Welcome.
	Hello struct {
		Name      peer.Name
		Machine   uint64 // as in chronicle.Founder
		Formation Formation
		Observer  bool // takes part in no formation
		Listing   Listing
		Spoken    chronicle.Level // the highest; all from 1 to it are
		Question  uint64          // which the answer repeats
	}
	// Welcome answers a Hello, from the disk of its sender. It says the same of
	// that, and repeats the question of the Hello.
	Welcome struct {
		Hello
		// Undecided says that the sender has accepted a change of the roster for
		// the slot after its last, which may be decided by now: what that brought
		// about it need not have heard.
		Undecided bool
		// Boot and Nonce are the highest that the sender knows of the peer
		// that it answers; Boot 0: none.
		Boot  peer.Boot
		Nonce uint64
	}
	// Copied tells a peer that a frame of its was refused, since there is a
	// later start of the same peer, or another of the same boot.
	Copied struct {
		Boot       peer.Boot // those of the frame that was refused
		Nonce      uint64
		KnownBoot  peer.Boot // those that the sender holds against them
		KnownNonce uint64
	}

	// Twin proves that two databases of one peer are in use at once. A start
	// that is refused answers with it, and names what was held against it: only
	// a process that runs now can know a nonce that was made since. It is passed
	// on to the later start, which would else take the frames of the earlier
	// for late ones.
	Twin struct {
		Boot       peer.Boot // of the start that was refused, and runs
		Nonce      uint64
		OtherBoot  peer.Boot // of the start that was held against it
		OtherNonce uint64
	}

	// Prepare asks a voter of a slot for a promise.
	Prepare struct {
		Slot      uint64
		Formation Formation
		Ballot    paxos.Ballot
	}
	// Promise answers a Prepare.
	Promise struct {
		Slot    uint64
		Promise paxos.Promise
	}
	// Accept asks a voter of a slot to accept a value.
	Accept struct {
		Slot      uint64
		Formation Formation
		Accept    paxos.Accept
	}
	// Accepted answers an Accept.
	Accepted struct {
		Slot     uint64
		Accepted paxos.Accepted
	}
	// Refusal answers a Prepare or an Accept that came too late.
	Refusal struct {
		Slot    uint64
		Refusal paxos.Refusal
	}

	// Pull asks for the slots behind After, the last that the sender knows. It
	// is answered by Decided or Snapshot.
	Pull struct{ After uint64 }
	// Decided tells the values of slots, from First on.
	Decided struct {
		First  uint64
		Values [][]byte
	}
	// Snapshot tells the whole state at a slot, to one who lags far behind.
	Snapshot struct{ State []byte } // as chronicle.State.Encode wrote it
	// Submit brings the commands of its sender that are not settled, all of
	// them, in order, to one who may propose them.
	Submit struct{ Batch []byte } // as chronicle.EncodeBatch wrote it
	// Join asks to be admitted.
	Join struct {
		Name    peer.Name
		Machine uint64
	}
	// UsedUp answers a Join: the cluster has known the sender of that, which left or whose space was
	// given up, and never admits its ID again.
	UsedUp struct{}
	// Beat says nothing but its header.
	Beat struct{}

	// Ask asks another peer for space of its, or to do something with it. It
	// is answered by an Answer with the same ID. The same question has the
	// same ID for as long as it is asked.
	Ask struct {
		ID    uint64 // unique among those of its sender's boot
		Want  Want
		Pool  chronicle.PoolKey
		Range addr.Range     // where; one address for WantExact and WantReserved
		Kind  chronicle.Kind // with WantReserved: as what
	}
	// Answer answers an Ask.
	Answer struct {
		ID      uint64
		Verdict Verdict
		Range   addr.Range // what is on its way
		Free    addr.Count // what is left free in the wanted range
		Text    string     // why it was refused, for people: who holds the address
	}
	// Inquire asks whether its addressee has heard from a peer that somebody
	// says is gone for good. It is answered by a Report with the same ID.
	Inquire struct {
		ID   uint64
		Peer peer.ID
	}
	// Report answers an Inquire.
	Report struct {
		ID    uint64
		Peer  peer.ID
		Heard bool // it can be reached, or was a moment ago, or containers of the sender have addresses in its space
	}
	// InUse says that containers on the host of its sender use these addresses, though they are
	// not its own: its space was given up, or it started over. Who gets it hands none of them out for
	// some minutes.
	InUse struct {
		Addresses []netip.Addr
		All       bool // there are no others: what its sender named before, and does not here, is in use no more
	}
	// Announce tells how much the sender has to spare.
	Announce struct{ Pools []Spare }
	// Directory is about what peers tell of themselves, which is nothing to the
	// allocator: it never gets one.
	Directory struct{ Message []byte }
)

// Want is what an [Ask] asks for.
type Want byte

// The wants. Their numbers are never reused.
const (
	WantSpace    Want = 1 // some free space in the range
	WantExact    Want = 2 // just that address
	WantReserved Want = 3 // that the address be reserved
	WantVacant   Want = 4 // that the pool be left, if nobody there uses it
)

// Verdict is how an [Ask] was taken.
type Verdict byte

// The verdicts. Their numbers are never reused.
const (
	// Granted says that the command which does it is under way, or done; a
	// slot will tell.
	Granted Verdict = 1
	// RefusedHeld says that somebody holds the address.
	RefusedHeld Verdict = 2
	// RefusedFull says that there is nothing to give.
	RefusedFull Verdict = 3
	// RefusedNotMine says that the sender does not own it, as far as it knows.
	RefusedNotMine Verdict = 4
	// RefusedNow says that the sender cannot do it at present.
	RefusedNow Verdict = 5
)

// Spare is how much of a pool a peer has to spare.
type Spare struct {
	Pool    chronicle.PoolKey
	Free    addr.Count // in its ranges, not held
	Resting addr.Count // those of them that were freed a moment ago
}

// MaxInUse is the most addresses in an [InUse].
const MaxInUse = 256

// MaxSpare is the most pools in an [Announce].
const MaxSpare = 1024
