package persist

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"

	"go.etcd.io/bbolt"
)

// Store is an open database. Make one with [Open] or [OpenVerified]; it is safe for concurrent use.
type Store struct {
	path string
	log  *slog.Logger

	mu     sync.RWMutex // held for reading by Load
	db     *bbolt.DB    // nil after Close
	guard  guard        // of the last commit
	failed error        // of the first failed commit
	arena  []byte       // kept from commit to commit, so that a steady load allocates none
}

// maxArena bounds the memory that a store keeps between commits, in bytes: one huge batch must not pin its size.
const maxArena = 1 << 20

// Load calls visit for every record, in order of bucket and key, within one read transaction. The slices are
// valid only during the call and must not be written. An error of visit ends the walk and is returned as it is.
//
// Damage may be noticed as late as at the end, so what visit took in counts only when Load returns nil. Errors:
// [ErrDamaged], [ErrFailed], [ErrClosed].
func (s *Store) Load(visit func(bucket string, key, value []byte) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	return s.db.View(func(tx *bbolt.Tx) error {
		h, err := readHeader(tx)
		if err != nil {
			return err
		}
		return visitRecords(tx, h.guard, visit)
	})
}

// Commit makes durable what fill puts, all of it or nothing, and returns nil only when it is on disk. A put with a nil
// value deletes the record, an empty value is stored; a later put of the same key wins; bucket "meta" is reserved.
// Keys have 1 to 32,768 bytes. put must not be kept, and takes copies: the slices may be reused when Commit returned.
// If fill puts nothing there is no transaction at all.
//
// After any error, also one of fill, and after a panic in fill, which is passed on, the outcome counts as unknown
// and the store refuses everything with [ErrFailed]: close it and open it again. Errors: whatever the system
// said about the write, [ErrFailed], [ErrClosed].
func (s *Store) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	t := batch{db: s.db, guard: s.guard, arena: s.arena[:0]}
	if err := s.run(&t, func() error { return fill(t.put) }); err != nil {
		return fmt.Errorf("commit to database %s: %w", s.path, err)
	}
	return nil
}

// run fills and commits t. Whatever way it ends, short of success, the store has failed. mu is held.
func (s *Store) run(t *batch, fill func() error) (err error) {
	done := false
	defer func() {
		if !done {
			t.rollback()
			s.failed = cmp.Or(err, errPanicked)
		}
	}()
	if err := fill(); err != nil {
		return err
	}
	if err := t.commit(); err != nil {
		return err
	}
	done = true
	s.guard = t.guard
	if s.arena = t.arena; cap(s.arena) > maxArena {
		s.arena = nil
	}
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

// Close waits for a running Load or Commit and releases the file. Closing twice is no error. What was committed is
// durable already, so an error says only that resources of the process may have leaked.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db, s.arena = nil, nil
	if err != nil {
		return fmt.Errorf("close database %s: %w", s.path, err)
	}
	return nil
}
