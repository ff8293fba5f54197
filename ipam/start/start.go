package start

import (
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
)

const (
	// KeySelf is where bucket "identity" has the ID of the peer, the number of its latest start, its name and its machine.
	KeySelf = "self"
	// KeyClock is where it has how the host's clock stood, and since when nobody has set it.
	KeyClock = "clock"
	// KeyLabel is where it has the name of the cluster in the settings.
	KeyLabel = "label"

	bucketIdentity = "identity"

	formatRecord = 1
)

// Start is one start of a peer. Use [New]. It is not safe for concurrent use.
type Start struct {
	out      *effect.Writer
	id       peer.ID
	boot     peer.Boot // 0 before the first step
	restored peer.Boot // the number on disk, of the start before this one; 0: there was none
	nonce    uint64
	at       time.Time
	joined   time.Time
	clock    clock // on disk
	// undisturbed is since when this process has run, and nothing has disturbed its clock (R66).
	undisturbed time.Time
	label       string // on disk
}

// New returns the start of a peer of which nothing is known. [Start.Restore] may follow, and then [Start.Begin].
func New(out *effect.Writer) *Start { return &Start{out: out} }

// Begin begins the start, in the first step of the process.
func (s *Start) Begin(random *rand.Rand) {
	if s.id == peer.None {
		s.id = peer.NewID(random)
	}
	s.boot, s.nonce = s.restored+1, random.Uint64()
	s.at, s.joined, s.undisturbed = s.out.Now(), s.out.Now(), s.out.Now()
}

// ID returns the ID of the peer, [peer.None] before its first step ever.
func (s *Start) ID() peer.ID { return s.id }

// Boot returns the number of this start, from 1; 0 before its first step.
func (s *Start) Boot() peer.Boot { return s.boot }

// Nonce returns what tells this start from another one with the same number, as of a copied database.
func (s *Start) Nonce() uint64 { return s.nonce }

// HasBegun reports whether the first step was made.
func (s *Start) HasBegun() bool { return s.boot != 0 }

// IsFirst reports whether there was no database before this start.
func (s *Start) IsFirst() bool { return s.restored == 0 }

// Is reports whether a number and a nonce are those of this start.
func (s *Start) Is(boot peer.Boot, nonce uint64) bool { return boot == s.boot && nonce == s.nonce }

// At returns when the first step was made, by the host's clock then.
func (s *Start) At() time.Time { return s.at }

// Join notes that the peer has come into its cluster.
func (s *Start) Join() { s.joined = s.out.Now() }

// Joined returns when the peer came into its cluster, the time of the first step if it has been in it since.
func (s *Start) Joined() time.Time { return s.joined }

// Save writes down who the peer is. latest is the number that the next start is to be above.
func (s *Start) Save(latest peer.Boot, name peer.Name, machine uint64) {
	b := append([]byte{formatRecord}, s.id[:]...)
	b = codec.Bytes(codec.Uint(b, uint64(latest)), name)
	s.out.Put(bucketIdentity, KeySelf, codec.Uint(b, machine))
}

// Label returns the name of the cluster in the settings of the start before this one, empty if that is not known.
func (s *Start) Label() string { return s.label }

// SetLabel writes down the name of the cluster in the settings, if it has changed.
func (s *Start) SetLabel(label string) {
	if s.label != label {
		s.label = label
		s.out.Put(bucketIdentity, KeyLabel, []byte(label))
	}
}

// Restore takes in the record of a key of this package. An error wraps [codec.ErrCorrupt].
func (s *Start) Restore(key string, value []byte) error {
	switch key {
	case KeyClock:
		return s.restoreClock(value)
	case KeyLabel:
		s.label = string(value)
		return nil
	}
	r := codec.NewReader(value)
	r.Format(formatRecord, "the identity")
	s.id, s.restored = r.ID("peer ID"), peer.Boot(r.Uint("boot"))
	r.Bytes("name", peer.MaxName) // for who reads the file
	r.Uint("machine")
	if s.id == peer.None {
		r.Fail("peer ID")
	}
	return r.Done()
}
