package gossip

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam/peer"
)

// DefaultPort is the port of hosts in Config.Join that name none.
const DefaultPort = parse.PeerPort

// MaxFrame is the longest frame that is sent, in bytes: that of package wire.
const MaxFrame = 16 << 20

// MaxBroadcast is the longest frame that is broadcast, in bytes. It leaves
// room in a packet for the longest label and for encryption.
const MaxBroadcast = 1100

// maxLabel is the longest label, in bytes: each packet carries it.
const maxLabel = 16

// Config says who this peer is and how it reaches others.
type Config struct {
	// ID is this peer's identity. Required.
	ID peer.ID
	// Name is for people; at most peer.MaxName bytes. Peers see it beside the ID.
	Name peer.Name
	// Boot and Nonce are those of this start, which others compare. Boot is 1 or more.
	Boot  peer.Boot
	Nonce uint64

	// Bind is where to listen, UDP and TCP. Port 0 takes one that is free. Required.
	Bind netip.AddrPort
	// Advertise is where others reach this peer, port 0 meaning that of Bind. The zero value has it chosen: the
	// address among Join that is this host's, else the one from which the first of Join is reached, else that of the
	// default route, else the only one there is. Once more names of Join are known it is chosen again.
	Advertise netip.AddrPort
	// Join are the hosts to find the cluster by, as host or host:port. Names are looked up again at each attempt, and
	// all their addresses are tried.
	Join []string
	// Label keeps clusters apart that share a network. It is no secret, and cannot change in a live cluster. At most
	// 16 bytes.
	Label string
	// Keys returns the keys of the cluster, of 16, 24 or 32 bytes. The first encrypts, all decrypt. It is called at
	// the start and every 10 seconds. With nil, or while it has never returned a key, nothing is encrypted.
	Keys func() ([][]byte, error)
	// Remembered are peers that were seen in former runs. They are tried as long as they are not alive.
	Remembered []Contact

	// Deliver takes the frames that have arrived, in order, each with its sender's seed index (see [Seeds]), 0 for none:
	// one or more, to the last. It must not block for long. It is called from several goroutines. Required.
	Deliver func(arrived iter.Seq2[[]byte, int])
	// Presence gets the state of each peer that appears, changes or disappears, one after the other. May be nil.
	Presence func(Presence)
	// SeedIndex gets this peer's own seed index (see [Seeds]) whenever that changes, one
	// after the other. It is none, 0, before the first call. May be nil.
	SeedIndex func(seed int)
	// Digest gets what another peer has last set with [Gossip.SetDigest],
	// one after the other and often. It must not block for long. May be nil.
	Digest func(from peer.ID, digest uint64)
	// Pace brings together what is done now and then with what else the process does. It follows this network, which
	// looks for broadcasts each [pace.Period]. May be nil.
	Pace *pace.Pace
	// Logger takes what an operator should know. Required; slog.DiscardHandler for none.
	Logger *slog.Logger

	// Transport, for tests, opens a network other than the host's. There, only what is in Bind, Advertise and Join as
	// an address is known. It is called again each time the sockets are opened.
	Transport func(bind netip.AddrPort) (memberlist.Transport, error)

	// host, for tests, stands for this host's addresses, routes and names.
	host *host
}

// Contact is where a peer was last seen.
type Contact struct {
	ID   peer.ID
	Addr netip.AddrPort
	Seen time.Time // now, if it is alive
}

// Presence is the state of another peer.
type Presence struct {
	ID        peer.ID
	Name      peer.Name // empty if it announced none that can be read
	Boot      peer.Boot // 0 if it announced none that can be read
	Nonce     uint64
	Addr      netip.AddrPort // where it is, or was last
	Alive     bool           // answers, as far as is known; false also if it left
	SeedIndex int            // see Seeds; 0 for none
}

func (cfg Config) withDefaults() Config {
	switch {
	case cfg.host != nil:
	case cfg.Transport != nil:
		cfg.host = noHost()
	default:
		cfg.host = thisHost()
	}
	if cfg.Presence == nil {
		cfg.Presence = func(Presence) {}
	}
	if cfg.SeedIndex == nil {
		cfg.SeedIndex = func(int) {}
	}
	if cfg.Digest == nil {
		cfg.Digest = func(peer.ID, uint64) {}
	}
	cfg.Bind = unmap(cfg.Bind)
	cfg.Advertise = unmap(cfg.Advertise)
	return cfg
}

// validate reports every problem at once.
func (cfg Config) validate() error {
	var errs []error
	if cfg.ID == peer.None {
		errs = append(errs, errors.New("this peer has no ID"))
	}
	if cfg.Boot == 0 {
		errs = append(errs, errors.New("the boot of this peer is 0, the first one is 1"))
	}
	if !cfg.Bind.IsValid() {
		errs = append(errs, errors.New("the address to listen on is missing"))
	}
	if cfg.Advertise.IsValid() && cfg.Advertise.Addr().IsUnspecified() {
		errs = append(errs, fmt.Errorf("%v means every address of this host, so no other host can reach it", cfg.Advertise.Addr()))
	}
	if len(cfg.Label) > maxLabel {
		errs = append(errs, fmt.Errorf("the label %q has %d bytes, the most is %d", cfg.Label, len(cfg.Label), maxLabel))
	}
	if cfg.Deliver == nil {
		errs = append(errs, errors.New("there is nobody to deliver frames to"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("logger of the network is missing"))
	}
	for _, join := range cfg.Join {
		if _, err := parseSeed(join, DefaultPort); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unmap takes an IPv4 address out of its IPv6 wrapping: the two compare as
// different addresses.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
