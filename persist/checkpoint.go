package persist

import (
	"fmt"
	"log/slog"
	"runtime"
)

// A checkpoint brings a segment of the log that is full to the database, in one transaction, while the other segment is
// written. After a crash the start does the same with what it finds.

// made is a log that is ready, or why there is none.
type made struct {
	wal *wal
	err error
}

// makeWAL has the log made in the background, since a start should not wait for it.
func (s *Store) makeWAL() {
	s.making = make(chan made, 1)
	go func(answer chan<- made, database string, segment int64, sync bool) {
		w, err := createWAL(database, segment, sync)
		answer <- made{w, err}
	}(s.making, s.path, s.cfg.segment, !s.cfg.noSync)
}

// adoptWAL returns the log that was being made if it is ready, with its name, and begins to make one if nobody did.
func (s *Store) adoptWAL() *wal {
	if s.noWAL {
		return nil
	}
	if s.making == nil {
		s.makeWAL()
	}
	var m made
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
		m.err = m.wal.name(s.path)
		if m.err != nil {
			_ = m.wal.remove() // the next one would
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

// direct commits a batch, which may be empty, to the database itself, after all that is in the log. A log that is ready
// comes into use with it.
func (s *Store) direct(batch []byte) error {
	if err := s.endCheckpoint(true); err != nil {
		return err
	}
	if s.wal == nil {
		s.wal = s.adoptWAL()
	}
	list, err := s.unapplied()
	if err != nil {
		return err
	}
	if list, err = decode(list, batch); err != nil {
		return err
	}
	if s.wal == nil {
		return s.transact(list, nil)
	}
	return s.applyUpTo(list, s.wal.number)
}

// empty brings all that is in the log to the database.
func (s *Store) empty() error {
	if err := s.endCheckpoint(true); err != nil || s.wal == nil || s.wal.number == s.applied {
		return err
	}
	return s.direct(nil)
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
func (s *Store) unapplied() ([]entry, error) {
	list := s.list[:0]
	if s.wal == nil || s.wal.number == s.applied {
		return list, nil
	}
	list, batches, err := readEntries(list, s.wal.f, s.wal.id, s.applied)
	if err != nil {
		return nil, err
	}
	if n := s.applied + uint64(batches); n != s.wal.number {
		return nil, fmt.Errorf("%w: its log ends with batch %d and should end with %d", ErrDamaged, n, s.wal.number)
	}
	return list, nil
}

// turn goes on in the other segment of the log, and has the full one brought to the database meanwhile.
func (s *Store) turn() error {
	if err := s.endCheckpoint(true); err != nil { // of the segment that is needed now
		return err
	}
	w := s.wal
	s.full = append(s.full[:0], make([]byte, w.end)...)
	if _, err := w.f.ReadAt(s.full, w.start(w.current)); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.checkpoint = done
	go func(last uint64) {
		err := errPanicked
		defer func() { done <- err }()
		err = s.applySegment(last)
	}(w.number)
	w.turn()
	return nil
}

// applySegment brings the segment that is full to the database. Its last record has that number.
func (s *Store) applySegment(last uint64) error {
	var records []walRecord
	for r := range (walImage{sum: s.wal.sum}).records(s.full) {
		if r.number == s.applied+uint64(len(records))+1 { // others the database has, by a batch that was too long for the log
			records = append(records, r)
		}
	}
	if n := s.applied + uint64(len(records)); n != last {
		return fmt.Errorf("%w: batch %d of its log cannot be read back", ErrDamaged, n+1)
	}
	list, err := entriesOf(s.list[:0], records)
	if err != nil {
		return err
	}
	return s.applyUpTo(list, last)
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
func (s *Store) applyUpTo(list []entry, number uint64) error {
	err := s.transact(list, func(t *batch) error { return t.putWAL(s.wal.id, number) })
	if err == nil {
		s.applied = number
	}
	return err
}

// transact commits entries to the database in one transaction, of those with the same key the last, and what more puts.
func (s *Store) transact(list []entry, more func(*batch) error) (err error) {
	s.checked = nil
	t := batch{db: s.db, guard: s.guard, arena: s.arena[:0]}
	done := false
	defer func() {
		if !done {
			t.rollback()
		}
	}()
	bucket := ""
	for i, e := range settle(list) {
		if i%yieldAfter == yieldAfter-1 {
			runtime.Gosched()
		}
		if string(e.bucket) != bucket {
			bucket = string(e.bucket)
		}
		if err := t.put(bucket, e.key, e.value); err != nil {
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
	s.keep(t.arena, list)
	return nil
}

// yieldAfter is how many entries a checkpoint writes before it yields, so that a commit does not wait for a whole checkpoint.
const yieldAfter = 32

// keep keeps memory for the next transaction.
func (s *Store) keep(arena []byte, list []entry) {
	clear(list) // it points at records
	s.arena, s.list = arena, list
	if cap(s.arena) > maxKept {
		s.arena = nil
	}
	if cap(s.list) > maxKeptEntries {
		s.list = nil
	}
	if cap(s.full) > maxKept {
		s.full = nil
	}
}

// maxKeptEntries is as maxKept, in entries: what a full segment has of short ones.
const maxKeptEntries = 8 << 10
