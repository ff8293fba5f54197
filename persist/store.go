package persist

import (
	"cmp"
	"fmt"
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/persist/wal"
)

// Store is an open database. Make one with [Open] or [OpenOrReplace]; it is safe for concurrent use.
type Store struct {
	path string
	cfg  Config

	mu     sync.Mutex
	db     *bbolt.DB // nil after Close
	file   *os.File  // which is db's
	failed error     // of the first failed commit
	batch  wal.Batch // kept from commit to commit, so that a steady load allocates none

	wal        *wal.Log       // nil until there is one
	making     chan walResult // answers once; nil if no log is being made
	noWAL      bool           // none can be made
	checkpoint chan error     // answers once; nil if none runs

	// What follows belongs to the checkpoint while one runs, and so does db.
	guard   guard    // of the last transaction
	applied uint64   // the last record of the log that the database holds
	checked *checked // the database as it was when it was opened, nil if it may have changed
	arena   []byte   // these are as batch
	full    wal.Segment
	list    []wal.Entry
}

// maxKept bounds the memory that a store keeps between commits, in bytes: one huge batch must not pin its size.
const maxKept = 1 << 20

// Path returns where the database is.
func (s *Store) Path() string { return s.path }

// Load calls visit for every record, in order of bucket and key. The slices are valid only during the call and must not
// be written. An error of visit ends the walk and is returned as it is.
//
// Errors: [ErrDamaged], before visit is called at all, [ErrFailed], [ErrClosed], and those of [Store.Commit] if what is in
// the log has to be brought over first.
func (s *Store) Load(visit func(bucket string, key, value []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.run(s.empty); err != nil {
		return fmt.Errorf("load database %s: %w", s.path, err)
	}
	if s.checked == nil {
		var err error
		if s.checked, err = checkOpen(s.file, nil); err != nil {
			return fmt.Errorf("load database %s: %w", s.path, err)
		}
	}
	defer func() { s.checked = nil }()
	return s.checked.visit(visit)
}

// Commit makes durable what fill puts, all of it or nothing, and returns nil only when it is on disk. A put with a nil
// value deletes the record, an empty value is stored; a later put of the same key wins; bucket "meta" is reserved.
// Keys have 1 to 32,768 bytes. put must not be kept, and takes copies: the slices may be reused when put returned.
// If fill puts nothing, nothing is written.
//
// After any error, also one of fill, and after a panic in fill, which is passed on, the outcome counts as unknown
// and the store refuses everything with [ErrFailed]: close it and open it again. An error may also be of batches that
// were committed before and are brought from the log to the database, which takes nothing back: they are in the log.
// Errors: whatever the system said about the write, [ErrFailed], [ErrClosed].
func (s *Store) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	p := puts{batch: s.batch.Reuse()}
	err := s.run(func() error {
		err := fill(p.put)
		p.closed = true
		batch := p.batch.Bytes()
		if s.batch = p.batch; cap(batch) > maxKept {
			s.batch = wal.Batch{}
		}
		if err != nil || len(batch) == 0 {
			return err
		}
		return s.write(batch)
	})
	if err != nil {
		return fmt.Errorf("commit to database %s: %w", s.path, err)
	}
	return nil
}

// write makes a batch durable: in the log if it has room there, else in the database.
func (s *Store) write(batch []byte) error {
	if err := s.endCheckpoint(false); err != nil {
		return err
	}
	if s.wal == nil || s.wal.TooLong(batch) {
		return s.commitDirect(batch)
	}
	if !s.wal.Fits(batch) {
		if err := s.switchSegment(); err != nil {
			return err
		}
	}
	return s.wal.Append(batch)
}

// run does one piece of work. Whatever way it ends, short of success, the store has failed. mu is held.
func (s *Store) run(work func() error) (err error) {
	done := false
	defer func() {
		if !done {
			s.failed = cmp.Or(err, errPanicked)
			s.cfg.Ballast.giveUp(err)
		}
	}()
	if err = work(); err != nil {
		return err
	}
	done = true
	return nil
}

// usable returns why the store refuses to work, or nil. mu is held.
func (s *Store) usable() error {
	switch {
	case s.db == nil:
		return ErrClosed
	case s.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, s.failed)
	}
	return nil
}

// Close waits for a running Load or Commit, brings what is in the log to the database, so that one file holds all of
// it, and releases the file. Closing twice is no error. What was committed is durable already, so an error says only
// that the next start finds it in the log, unless that is damaged, or that resources of the process may have leaked.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	err := s.end()
	if closing := s.db.Close(); err == nil {
		err = closing
	}
	s.db, s.batch, s.arena, s.checked = nil, wal.Batch{}, nil, nil
	if err != nil {
		return fmt.Errorf("close database %s: %w", s.path, err)
	}
	return nil
}

// end ends what runs in the background and, unless the store has failed, the log.
func (s *Store) end() error {
	err := s.endCheckpoint(true)
	if s.making != nil {
		if m := <-s.making; m.wal != nil {
			_ = m.wal.Remove() // nobody was told of it
		}
		s.making = nil
	}
	if s.wal == nil {
		return nil
	}
	if err != nil || s.failed != nil {
		_ = s.wal.Close()
		return err
	}
	if err := s.endWAL(); err != nil {
		_ = s.wal.Close()
		return err
	}
	return s.wal.Remove()
}

// walSuffix ends the name of a database's log.
const walSuffix = ".wal"

// walPath is where the log of a database is.
func walPath(database string) string { return database + walSuffix }
