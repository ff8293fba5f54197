package etcd

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// lease is how long etcd keeps this host's keys after it last renewed them. It does so, and compares all keys,
	// each third of that time.
	lease = 15 * time.Minute
	// proofLease is the lease of the key that shows that writes work.
	proofLease = 25 * time.Second
	// answerTime is how long etcd has for one answer.
	answerTime = 5 * time.Second
	// lookEvery is how often etcd is asked for a sign of life. That etcd lost its data is noticed by that alone: the watch goes on.
	lookEvery = 2 * time.Second
	// keepAliveEvery is how often an idle connection is tried. etcd hangs up on who does so more often than each 5 s.
	keepAliveEvery = 10 * time.Second
	// putBackEvery is how long passes at least until a key is put back again, so
	// that two hosts that disagree do not write without end.
	putBackEvery = 5 * time.Second
	// firstPause and lastPause are between two attempts to connect.
	firstPause = 500 * time.Millisecond
	lastPause  = 2 * time.Second
	// takeAfter is how long a host that was refused leaves a label alone that is free: who had it puts it back
	// within 10 s if all keys were deleted.
	takeAfter = 15 * time.Second
	// foreignFor is how long foreign keys are shown after etcd was last seen.
	foreignFor = 15 * time.Minute
)

// Directory is what is mirrored. It is safe for concurrent use, and waits for
// nothing.
type Directory interface {
	Of() (label, id string)
	Voice() bool
	Outside(key string) string
	Mirrored(outside string) (value []byte, others bool)
	Mirror() []string
	SetForeign(key string, value []byte) (ok bool)
	ForeignKeys() []string
	Watch(after events.ID) *directory.Changes
	Last() events.ID
}

// Config is what a [Mirror] needs.
type Config struct {
	Endpoints []string // URLs, all http or all https; at least one

	CA        string // file with the certificates that sign etcd's; empty: those of the host
	Cert, Key string // files with this host's certificate and key for etcd; empty: none

	User         string // empty: none
	PasswordFile string // file with its password, in the first line

	Self      peer.ID
	Directory Directory
	// Report is told what is wrong, nil if nothing is. Its text is a sentence.
	Report func(err error)
	Logger *slog.Logger

	lease time.Duration // of tests; 0: as above
}

// Mirror keeps the copy. Use [New].
type Mirror struct {
	cfg   Config
	lease clientv3.LeaseID
	up    atomic.Bool
	seen  time.Time // when a session was last well

	refused   error     // why this host was refused last, as another cluster had the label; nil once it has it
	freeSince time.Time // since when the label is free, after it was refused; zero: it is not, or etcd did not answer
}

// New returns the mirror of a peer. It does nothing before it is run.
func New(cfg Config) (*Mirror, error) {
	if len(cfg.Endpoints) == 0 || cfg.Self == peer.None || cfg.Directory == nil || cfg.Report == nil || cfg.Logger == nil {
		return nil, errors.New("the mirror needs endpoints, a peer, the directory, a report and a logger")
	}
	cfg.lease = cmp.Or(cfg.lease, lease)
	id := binary.BigEndian.Uint64(cfg.Self[:])&(1<<63-1) | 1 // etcd takes positive numbers
	return &Mirror{cfg: cfg, lease: clientv3.LeaseID(id)}, nil
}

// Up reports whether etcd has all that this host has to say, or is being told.
func (m *Mirror) Up() bool { return m.up.Load() }

// Run mirrors until ctx ends. Its error is always nil.
func (m *Mirror) Run(ctx context.Context) error {
	m.seen = time.Now()
	for pause := (backoff.Backoff{First: firstPause, Last: lastPause}); ctx.Err() == nil; {
		begun := time.Now()
		err := m.session(ctx)
		m.up.Store(false)
		if !errors.As(err, new(labelError)) {
			m.freeSince = time.Time{}
		}
		if ctx.Err() != nil {
			break
		}
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
		if !errors.Is(err, errAgain) {
			m.cfg.Report(err)
		}
		if time.Since(m.seen) > foreignFor {
			m.forgetForeign(nil)
		}
		backoff.Sleep(ctx, pause.Next(), nil)
	}
	return nil //nolint:nilerr // the last session ended because ctx did
}

// errAgain is the error of a session that ends for a reason that is none to report.
var errAgain = errors.New("the session begins anew")

// forgetForeign shows no foreign keys any more but those that are there.
func (m *Mirror) forgetForeign(there map[string]bool) {
	for _, key := range m.cfg.Directory.ForeignKeys() {
		if !there[key] {
			m.cfg.Directory.SetForeign(key, nil)
		}
	}
}
