package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// DefaultFileSize is how large a file becomes, in bytes: some 25,000 lines.
	DefaultFileSize = 8 << 20
	// DefaultFiles is how many files there are at most.
	DefaultFiles = 8

	// gather is how long events are waited for that go to the disk together.
	gather = 200 * time.Millisecond
	// retry is how long it takes until what failed is tried again, at first, and
	// retryMax at most: each attempt begins by reading all that is written.
	retry    = 5 * time.Second
	retryMax = 5 * time.Minute
	// reserve is how many bytes of the file system the journal leaves to the
	// database, which hands out nothing, and may not even start, without.
	reserve = 4 << 20
)

// Config is what a [Journal] needs.
type Config struct {
	Dir string      // is made when it is needed
	Log *events.Log // must not be nil
	// Self is the name of this peer.
	Self string
	// Held lists what is held on this peer, until ctx ends or an error. What
	// changes meanwhile may be in it or not: events tell of it.
	Held func(ctx context.Context) iter.Seq2[ipam.AddressStatus, error]
	// Owner tells in which other peer's range an address lies now, by the peer's
	// name; empty: in none, or nobody knows. It must not block.
	Owner func(a netip.Addr) string
	// Report is told what keeps the journal from being written, nil when
	// nothing does. It must not block.
	Report func(error)
	// Writing contains a panic of what is written. It may be nil.
	Writing *contain.Edge

	FileSize int64 // of each file, in bytes; default [DefaultFileSize]
	Files    int   // how many are kept; default [DefaultFiles]
}

// Journal writes down the events of a log. Use [New]. It is safe for
// concurrent use.
type Journal struct {
	cfg   Config
	files files
	known atomic.Pointer[uses] // addresses in use according to the files; nil until compared with the node once
}

// New returns a journal. It touches no file before it is run or asked.
func New(cfg Config) (*Journal, error) {
	if cfg.Dir == "" || cfg.Log == nil || cfg.Held == nil || cfg.Owner == nil || cfg.Report == nil {
		return nil, errors.New("the journal needs a directory, a log, what is held, whose ranges are, and somebody to report to")
	}
	if cfg.Writing == nil {
		cfg.Writing = new(contain.Edge)
	}
	if cfg.FileSize <= 0 {
		cfg.FileSize = DefaultFileSize
	}
	if cfg.Files <= 0 {
		cfg.Files = DefaultFiles
	}
	return &Journal{cfg: cfg, files: files{dir: cfg.Dir, maxBytes: cfg.FileSize, maxFiles: cfg.Files, reserve: reserve}}, nil
}

// Run writes down events until ctx ends. What fails is reported and tried again.
// Its error is always nil.
func (j *Journal) Run(ctx context.Context) error {
	defer j.files.end()
	for wait := (backoff.Backoff{First: retry, Last: retryMax}); ctx.Err() == nil; {
		begun := time.Now()
		err := errPanicked
		j.cfg.Writing.Do(func() { err = j.write(ctx) })
		if ctx.Err() != nil {
			break
		}
		if time.Since(begun) > retryMax { // it went well for a while
			wait.Reset()
		}
		j.cfg.Report(err)
		backoff.Sleep(ctx, wait.Next(), nil)
	}
	return nil
}

// errPanicked is reported when writing has panicked. It is tried again like anything
// that fails.
var errPanicked = errors.New("this program has an error of its own, see its log")

// write continues the journal until ctx ends or something fails.
func (j *Journal) write(ctx context.Context) error {
	known, last, err := j.replay(ctx)
	if err != nil {
		return err
	}
	reader := j.cfg.Log.Read(last)
	behind := true // what the journal tells may differ from what is held
	var records []record
	for {
		list, err := reader.Kept()
		switch _, gap := errors.AsType[*events.GapError](err); {
		case gap:
			behind = true
			continue
		case err != nil:
			return err
		case len(list) == 0 && behind:
			if err := j.catchUp(ctx, known); err != nil {
				return err
			}
			behind = false
			j.known.Store(known)
			j.cfg.Report(nil)
			continue
		case len(list) == 0:
			if list, err = reader.Next(ctx); err != nil {
				if _, gap := errors.AsType[*events.GapError](err); gap {
					behind = true
					continue
				}
				return err
			}
		}
		records = slices.Grow(records[:0], len(list))[:len(list)]
		for i := range list {
			moved := list[i].Kind == events.RangeMoved
			records[i] = record{Event: list[i], ToSelf: moved && list[i].To == j.cfg.Self, FromSelf: moved && list[i].From == j.cfg.Self}
		}
		if err := j.files.append(context.WithoutCancel(ctx), records, false); err != nil {
			return err
		}
		known.applyAll(records)
		if len(list) < events.MaxBatch { // else there is more, and the log does not wait
			reader.Gather(ctx, gather)
		}
	}
}

// inferredAtOnce is how many records of a difference are made before they are written.
const inferredAtOnce = 500

// catchUp writes down how what is held differs from what the journal tells. It
// does so by portions: all records at once would be several times what is kept of
// them.
func (j *Journal) catchUp(ctx context.Context, known *uses) error {
	now, id := time.Now().UTC(), j.cfg.Log.Last()
	var inferred []record
	write := func(more bool) error {
		if err := j.files.append(ctx, inferred, more); err != nil {
			return err
		}
		known.applyAll(inferred)
		inferred = inferred[:0]
		return nil
	}
	add := func(kind string, pool netip.Prefix, a netip.Addr, h events.Holder, text string) error {
		if len(inferred) == inferredAtOnce {
			if err := write(true); err != nil {
				return err
			}
		}
		inferred = append(inferred, record{Inferred: true, Event: events.Event{
			ID: id, Time: now, Kind: kind, Pool: pool, Address: a, Holder: &h, Text: fmt.Sprintf("%v %s %s", a, text, &h),
		}})
		return nil
	}
	had := known.addresses()
	there := make([]bool, len(had))
	for a, err := range j.cfg.Held(ctx) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err // with very much held this takes a second, for which the end does not wait
		}
		h, ok := holderOf(a)
		if !ok {
			continue
		}
		if at, ok := slices.BinarySearchFunc(had, a.Address, netip.Addr.Compare); ok {
			there[at] = true
		}
		if !known.has(a.Address, h) {
			if err := add(events.Granted, a.Pool, a.Address, h, "is held by"); err != nil {
				return err
			}
		}
	}
	for i, a := range had {
		if there[i] {
			continue
		}
		u, _ := known.use(a)
		if err := cmp.Or(ctx.Err(), add(events.Freed, u.Pool, a, u.Holder, "is free, was held by")); err != nil {
			return err
		}
	}
	if len(inferred) == 0 {
		return nil
	}
	return write(false)
}

// holderOf returns who holds an address of a list; false if nobody does.
func holderOf(a ipam.AddressStatus) (events.Holder, bool) {
	h := events.Holder{Kind: a.Kind, Container: a.Container, Name: a.Name, MAC: a.MAC, Since: a.Since}
	switch a.State {
	case "held", "gateway", "host", "stranger":
		return h, true
	}
	return h, false
}

// replay reads what the journal tells, and which event it has last, which may be of
// another database than those before, unless ctx
// ends.
func (j *Journal) replay(ctx context.Context) (*uses, events.ID, error) {
	known := &uses{}
	var last events.ID
	err := j.files.read(ctx, hurried, func([]byte) bool { return true }, func(r *record) {
		known.apply(r)
		last = r.ID
	})
	return known, last, cmp.Or(err, ctx.Err())
}
