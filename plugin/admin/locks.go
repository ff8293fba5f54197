package admin

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/plugin/locks"
)

// Locks are the locks of the cluster. It is safe for concurrent use.
type Locks interface {
	// Take takes a lock for a program of this host, and returns its fence. It fails while another one has the lock.
	Take(ctx context.Context, w lock.Want) (fence uint64, err error)
	// Renew has a lock stay for another lease, and reports whether the program still has it.
	Renew(ctx context.Context, name string, fence uint64) (stands bool, err error)
	// Release ends a lock; one that has ended is no error.
	Release(ctx context.Context, name string, fence uint64) error
	// List returns the locks that are held, in order of their names.
	List(ctx context.Context) ([]lock.Lock, error)
}

// NewLock is the body of a request for a lock.
type NewLock struct {
	Holder string `json:"holder"` // who asks, for people
	// Token tells who asks from all others that ask for the lock on this host, at most 64 bytes: a request that is repeated with
	// the token gets the same lock. Empty: the request is not repeated.
	Token string `json:"token,omitempty"`
}

// HeldLock is a lock that is held.
type HeldLock struct {
	Name   string    `json:"name"`
	Holder string    `json:"holder"`
	Host   string    `json:"host"` // the name of the peer whose host has it, or its ID
	Fence  uint64    `json:"fence"`
	Since  time.Time `json:"since"`         // by the clock of that host
	Lease  int       `json:"lease_seconds"` // within which the program has to renew it
}

// Renewal is the body of a request to renew a lock.
type Renewal struct {
	Fence uint64 `json:"fence"`
}

// CodeLockLost is the code of a program's lock that has ended, or that somebody else has by now.
const CodeLockLost = "lock-lost"

// maxToken is how long a token is at most, in bytes.
const maxToken = 64

func (s *Server) lockRoutes() []route {
	own := onHost("a lock is for programs of the host that holds it")
	return []route{
		{method: http.MethodGet, path: "/v1/locks", call: "locks", handle: s.locks},
		{method: http.MethodPost, path: "/v1/locks/{name}", call: "lock", local: own, handle: s.lock},
		// None of these is written down as a write: who waits asks often, and events tell who has a lock. A renewal takes no place:
		// a crowd of other requests costs nobody a lock.
		{method: http.MethodPut, path: "/v1/locks/{name}", call: "lock-renew", local: own, instant: true, handle: s.renewLock},
		{method: http.MethodDelete, path: "/v1/locks/{name}", call: "unlock", query: []string{"fence"}, local: own, handle: s.unlock},
	}
}

// locks lists the locks that are held.
func (s *Server) locks(ctx context.Context, _ *request) (answer, error) {
	list, err := s.heldLocks(ctx)
	return answer{body: list}, err
}

func (s *Server) heldLocks(ctx context.Context) ([]HeldLock, error) {
	list, err := s.cfg.Locks.List(ctx)
	if err != nil {
		return nil, err
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{st.Self.ID: st.Self.Name}
	for _, p := range st.Peers {
		names[p.ID] = p.Name
	}
	out := make([]HeldLock, 0, len(list))
	for _, l := range list {
		host := l.Owner.String()
		if name := names[host]; name != "" {
			host = name
		}
		out = append(out, HeldLock{
			Name: l.Name, Holder: l.Holder, Host: host, Fence: l.Fence, Since: time.Unix(l.Since, 0).UTC(), Lease: int(locks.Lease / time.Second),
		})
	}
	return out, nil
}

// lock takes a lock.
func (s *Server) lock(ctx context.Context, r *request) (answer, error) {
	var body NewLock
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if body.Holder == "" {
		return answer{}, badRequest(`a lock needs a holder, for people: {"holder": "backup of the NAS"}`)
	}
	if len(body.Token) > maxToken {
		return answer{}, badRequest("the token of a lock has at most %d bytes, not %d", maxToken, len(body.Token))
	}
	w := lock.Want{Name: r.http.PathValue("name"), Holder: body.Holder, Token: rand.Uint64() | 1, Since: time.Now().Unix()}
	if body.Token != "" {
		h := fnv.New64a()
		h.Write([]byte(body.Token))
		w.Token = h.Sum64() | 1
	}
	fence, err := s.cfg.Locks.Take(ctx, w)
	if err != nil {
		return answer{}, err
	}
	list, err := s.heldLocks(ctx)
	if err != nil {
		return answer{}, err
	}
	for _, l := range list {
		if l.Name == w.Name && l.Fence == fence {
			return answer{status: http.StatusCreated, location: "/v1/locks/" + l.Name, body: l}, nil
		}
	}
	return answer{}, lockLost(w.Name, fence) // others took this host for silent
}

func lockLost(name string, fence uint64) error {
	return problem(http.StatusConflict, CodeLockLost, "the lock %s with fence %d has ended: stop what depends on it, and take it again", name, fence)
}

// renewLock has a lock stay.
func (s *Server) renewLock(ctx context.Context, r *request) (answer, error) {
	var body Renewal
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	name := r.http.PathValue("name")
	stands, err := s.cfg.Locks.Renew(ctx, name, body.Fence)
	switch {
	case err != nil:
		return answer{}, err
	case !stands:
		return answer{}, lockLost(name, body.Fence)
	}
	return answer{status: http.StatusNoContent}, nil
}

// unlock ends a lock.
func (s *Server) unlock(ctx context.Context, r *request) (answer, error) {
	fence, err := strconv.ParseUint(r.query.Get("fence"), 10, 64)
	if err != nil {
		return answer{}, badRequest("name the fence of the lock that is to end, a number, with ?fence=: %q is none", r.query.Get("fence"))
	}
	if err := s.cfg.Locks.Release(ctx, r.http.PathValue("name"), fence); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}
