package locks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

const (
	// Lease is the time within which a program has to renew its lock.
	Lease = 25 * time.Second
	// Grace is how much later a host ends the lock: the program counts from when it asked, and a renewal may be on its way.
	Grace = 5 * time.Second
	// lookEvery is how often a host looks for locks whose leases have ended, as long as it has any.
	lookEvery = time.Second
	// lookFor is for how long it looks at least behind a request, which may be decided when nobody waits for it any more.
	lookFor = time.Minute
	// renewTime is how long a majority has to answer a renewal. The program asks again after 5 s.
	renewTime = 3 * time.Second
	// answerTime is how long the cluster has to end a lock, before it is asked again.
	answerTime = 10 * time.Second
)

// Node is the peer of this host. Its methods are safe for concurrent use.
type Node interface {
	// Lock takes a lock for this host, and returns its fence.
	Lock(ctx context.Context, w lock.Want) (fence uint64, err error)
	// Unlock ends a lock of this host; one that has ended is no error.
	Unlock(ctx context.Context, name string, fence uint64) error
	// Locks returns the locks that are held in the cluster.
	Locks(ctx context.Context) ([]lock.Lock, error)
	// LockStands reports whether this host still has a lock with that fence, once a majority of the cluster has answered. The
	// error says that nobody can tell.
	LockStands(ctx context.Context, name string, fence uint64) (bool, error)
}

// Keeper is the locks of this host. Use [New]. It is safe for concurrent use.
type Keeper struct {
	node   Node
	self   peer.ID
	logger *slog.Logger
	wake   chan struct{} // has room for one: somebody has asked for a lock

	mu   sync.Mutex
	ends map[held]time.Time // when locks of this host end that are not renewed
}

// held is a lock with one holder.
type held struct {
	name  string
	fence uint64
}

// New returns the keeper of a peer. [Keeper.Run] is to follow.
func New(node Node, self peer.ID, logger *slog.Logger) (*Keeper, error) {
	if node == nil || self == peer.None || logger == nil {
		return nil, errors.New("locks need a peer and a logger")
	}
	return &Keeper{node: node, self: self, logger: logger, wake: make(chan struct{}, 1), ends: map[held]time.Time{}}, nil
}

// Take takes a lock for a program, and returns its fence. It fails while another one has the lock.
func (k *Keeper) Take(ctx context.Context, w lock.Want) (fence uint64, err error) {
	fence, err = k.node.Lock(ctx, w)
	if err == nil {
		k.renewed(held{w.Name, fence})
	}
	wake.Up(k.wake)
	return fence, err
}

// Renew has a lock stay for another [Lease]. It reports false if the program has lost the lock. The error says that nobody can
// tell for now: then the lease goes on, and ends.
func (k *Keeper) Renew(ctx context.Context, name string, fence uint64) (stands bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	stands, err = k.node.LockStands(ctx, name, fence)
	if err == nil && stands {
		k.renewed(held{name, fence})
	}
	return stands, err
}

// Release ends a lock. One that has ended is no error.
func (k *Keeper) Release(ctx context.Context, name string, fence uint64) error {
	return k.node.Unlock(ctx, name, fence)
}

// List returns the locks that are held in the cluster, in order of their names. The list is not to be changed.
func (k *Keeper) List(ctx context.Context) ([]lock.Lock, error) { return k.node.Locks(ctx) }

func (k *Keeper) renewed(h held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ends[h] = time.Now().Add(Lease + Grace)
}

// Run ends locks whose leases have ended, until ctx ends. Its error is always nil.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		until := time.Now().Add(lookFor) // also at the start: an earlier process may have had locks
		for k.look(ctx) || time.Now().Before(until) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lookEvery):
			case <-k.wake:
				until = time.Now().Add(lookFor)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		}
	}
}

// look ends the locks of this host whose leases have ended, and reports whether it has any.
func (k *Keeper) look(ctx context.Context) (has bool) {
	list, err := k.node.Locks(ctx)
	if err != nil {
		return true // it is looked again
	}
	now := time.Now()
	there := map[held]bool{}
	var over []lock.Lock
	k.mu.Lock()
	for _, l := range list {
		h := held{l.Name, l.Fence}
		if l.Owner != k.self {
			continue
		}
		there[h] = true
		if _, known := k.ends[h]; !known {
			k.ends[h] = now.Add(Lease + Grace)
		}
		if !now.Before(k.ends[h]) {
			over = append(over, l)
		}
	}
	for h, at := range k.ends {
		if !there[h] && !now.Before(at) { // one that was taken just now may not be seen yet
			delete(k.ends, h)
		}
	}
	k.mu.Unlock()
	for _, l := range over {
		k.end(ctx, l)
	}
	return len(there) > 0
}

// end ends a lock whose program is gone.
func (k *Keeper) end(ctx context.Context, l lock.Lock) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := k.node.Unlock(ctx, l.Name, l.Fence); err != nil {
		k.logger.Debug("lock not ended, and tried again", slog.String("lock", l.Name), logattr.Err(err))
		return
	}
	k.logger.Info("lock ended, because its program did not renew it", slog.String("lock", l.Name), slog.String("holder", l.Holder), slog.Uint64("fence", l.Fence))
}
