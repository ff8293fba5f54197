package persist

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/ringlet/ringlet/persist/wal"
)

// A checkpoint brings a segment of the log that is full to the database, in one transaction, while the other segment is
// written. After a crash the start does the same with what it finds.

// segmentSize is how much of the log is written, in bytes, before it goes to the database while the other segment is
// written: 500 batches of a few addresses each, or some 2,000 addresses that come together. The longer a segment, the
// longer those wait who come while it goes to the database; the shorter, the more of them do. A start after a crash
// reads both.
const segmentSize = 256 << 10

// walResult is a log that is ready, or why there is none.
type walResult struct {
	wal *wal.Log
	err error
}

// makeWAL has the log made in the background, since a start should not wait for it.
func (s *Store) makeWAL() {
	s.making = make(chan walResult, 1)
	go func(answer chan<- walResult, database string, segment int64, sync bool) {
		w, err := createWAL(database, segment, sync)
		answer <- walResult{w, err}
	}(s.making, s.path, s.cfg.segment, !s.cfg.noSync)
}

// createWAL makes the log of a database under a name that the next one takes over: of a process that ends before it needed its
// log nothing stays.
func createWAL(database string, segment int64, sync bool) (*wal.Log, error) {
	return wal.Create(walPath(database)+newSuffix, segment, sync)
}

// useWAL returns the log that was being made if it is ready, with its name, and begins to make one if nobody did.
func (s *Store) useWAL() *wal.Log {
	if s.noWAL {
		return nil
	}
	if s.making == nil {
		s.makeWAL()
	}
	var m walResult
	if s.cfg.awaitWAL {
		m = <-s.making
	} else {
		select {
		case m = <-s.making:
		default:
			return nil
		}
	}
	s.making = nil
	if m.err == nil {
		m.err = m.wal.Rename(walPath(s.path))
		if m.err != nil {
			_ = m.wal.Remove() // the next one would
		}
	}
	if m.err != nil {
		s.noLog(m.err)
		return nil
	}
	return m.wal
}

// noLog goes on without a log.
func (s *Store) noLog(err error) {
	s.noWAL = true
	s.cfg.Logger.Warn("database log unavailable, commits are slower",
		slog.String("path", walPath(s.path)), slog.Any("err", err))
}

// commitDirect commits a batch, which may be empty, to the database itself, after all that is in the log. A log that is ready
// comes into use with it.
func (s *Store) commitDirect(batch []byte) error {
	if err := s.endCheckpoint(true); err != nil {
		return err
	}
	if s.wal == nil {
		s.wal = s.useWAL()
	}
	list, err := s.unapplied()
	if err != nil {
		return err
	}
	if list, err = wal.Decode(list, batch); err != nil {
		return err
	}
	if s.wal == nil {
		return s.transact(list, nil)
	}
	return s.applyUpTo(list, s.wal.Last())
}

// empty brings all that is in the log to the database.
func (s *Store) empty() error {
	if err := s.endCheckpoint(true); err != nil || s.wal == nil || s.wal.Last() == s.applied {
		return err
	}
	return s.commitDirect(nil)
}

// endWAL brings all of the log to the database, which does not need it any more then.
func (s *Store) endWAL() error {
	list, err := s.unapplied()
	if err != nil {
		return err
	}
	return s.transact(list, (*batch).putNoWAL)
}

// unapplied reads back what is in the log and not in the database.
func (s *Store) unapplied() ([]wal.Entry, error) {
	list := s.list[:0]
	if s.wal == nil || s.wal.Last() == s.applied {
		return list, nil
	}
	list, batches, err := s.wal.Read(list, s.applied)
	if err != nil {
		return nil, asDamage(err)
	}
	if n := s.applied + uint64(batches); n != s.wal.Last() {
		return nil, fmt.Errorf("%w: its log ends with batch %d and should end with %d", ErrDamaged, n, s.wal.Last())
	}
	return list, nil
}

// switchSegment goes on in the other segment of the log, and has the full one brought to the database in the meantime.
func (s *Store) switchSegment() (err error) {
	if err := s.endCheckpoint(true); err != nil { // of the segment that is needed now
		return err
	}
	if s.full, err = s.wal.Switch(s.full); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.checkpoint = done
	go func() {
		err := errPanicked
		defer func() { done <- err }()
		err = s.applySegment()
	}()
	return nil
}

// applySegment brings the segment that is full to the database, but for what the database has by a batch that was too long for
// the log.
func (s *Store) applySegment() error {
	list, err := s.full.Read(s.list[:0], s.applied)
	if err != nil {
		return asDamage(err)
	}
	return s.applyUpTo(list, s.full.Last())
}

// endCheckpoint takes in what became of a checkpoint that has ended; wait waits for one that runs.
func (s *Store) endCheckpoint(wait bool) (err error) {
	if s.checkpoint == nil {
		return nil
	}
	if wait {
		err = <-s.checkpoint
	} else {
		select {
		case err = <-s.checkpoint:
		default:
			return nil
		}
	}
	s.checkpoint = nil
	if err != nil {
		return fmt.Errorf("bring the log to the database: %w", err)
	}
	return nil
}

// applyUpTo commits entries to the database, which then holds the log up to the record with that number.
func (s *Store) applyUpTo(list []wal.Entry, number uint64) error {
	err := s.transact(list, func(t *batch) error { return t.putWAL(s.wal.ID(), number) })
	if err == nil {
		s.applied = number
	}
	return err
}

// transact commits entries to the database in one transaction, of those with the same key the last, and what more puts.
func (s *Store) transact(list []wal.Entry, more func(*batch) error) (err error) {
	s.checked = nil
	t := batch{db: s.db, guard: s.guard, arena: s.arena[:0]}
	done := false
	defer func() {
		if !done {
			t.rollback()
		}
	}()
	bucket := ""
	for i, e := range wal.Settle(list) {
		if i%yieldAfter == yieldAfter-1 {
			runtime.Gosched()
		}
		if string(e.Bucket) != bucket {
			bucket = string(e.Bucket)
		}
		if err := t.put(bucket, e.Key, e.Value); err != nil {
			return err
		}
	}
	if more != nil {
		if err := more(&t); err != nil {
			return err
		}
	}
	if err := t.commit(); err != nil {
		return err
	}
	done = true
	s.guard = t.guard
	s.reuseBuffers(t.arena, list)
	return nil
}

// yieldAfter is how many entries a checkpoint writes before it yields, so that a commit does not wait for a whole checkpoint.
const yieldAfter = 32

// reuseBuffers keeps memory for the next transaction.
func (s *Store) reuseBuffers(arena []byte, list []wal.Entry) {
	clear(list) // it points at records
	s.arena, s.list = arena, list
	if cap(s.arena) > maxKept {
		s.arena = nil
	}
	if cap(s.list) > maxKeptEntries {
		s.list = nil
	}
}

// maxKeptEntries is as maxKept, in entries: what a full segment has of short ones.
const maxKeptEntries = 8 << 10
