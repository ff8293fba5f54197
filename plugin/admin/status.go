package admin

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// status answers at once, also when nothing else does: that is when people
// ask for it.
func (s *Server) status(ctx context.Context, _ *request) (answer, error) {
	st, err := s.snapshot(ctx)
	return answer{body: st}, err
}

func (s *Server) peers(ctx context.Context, _ *request) (answer, error) {
	st, err := s.seen(ctx)
	return answer{body: st.Peers}, err
}

func (s *Server) check(ctx context.Context, _ *request) (answer, error) {
	audit, err := s.cfg.Backend.Check(ctx)
	return answer{body: audit}, err
}

// collect frees what a report found to leak.
func (s *Server) collect(ctx context.Context, r *request) (answer, error) {
	var body Collection
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	done, err := s.cfg.Backend.Collect(ctx, ipam.CollectRequest{Findings: body.Findings, DryRun: body.DryRun})
	return answer{body: append([]ipam.Collected{}, done...)}, err
}

// fresh returns the Backend's status as it is after all that was done.
func (s *Server) fresh(ctx context.Context) (ipam.Status, error) {
	return inOrder(s.cfg.Backend.Status(ctx))
}

// lag is how old the status may be that is read over TCP, where no write came
// since. Whatever reads there asks again later, and is one of many.
const lag = 250 * time.Millisecond

// recent is a status that many read. Nobody changes it.
type recent struct {
	making slots // has room for one
	mu     sync.Mutex
	asked  time.Time // before it was made
	status ipam.Status
}

func newRecent() *recent { return &recent{making: make(slots, 1)} }

// get returns the status if it is young enough, and was made after the last write.
func (r *recent) get(wrote time.Time) (ipam.Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status, !r.asked.IsZero() && time.Since(r.asked) < lag && r.asked.After(wrote)
}

// snapshot returns the status within 100 ms, over TCP one that is a little older.
func (s *Server) snapshot(ctx context.Context) (ipam.Status, error) {
	return s.recently(ctx, s.snapshots, s.cfg.Backend.Snapshot)
}

// seen returns the status for somebody who only reads: as it is, over TCP one that is a
// little older.
func (s *Server) seen(ctx context.Context) (ipam.Status, error) {
	return s.recently(ctx, s.statuses, s.cfg.Backend.Status)
}

func (s *Server) recently(ctx context.Context, r *recent, ask func(context.Context) (ipam.Status, error)) (ipam.Status, error) {
	if !s.cfg.Remote {
		return inOrder(ask(ctx))
	}
	wrote := func() time.Time { return time.Unix(0, s.wrote.Load()) }
	if st, ok := r.get(wrote()); ok {
		return st, nil
	}
	var h holds
	defer h.free()
	if !r.making.take(ctx, &h) {
		return ipam.Status{}, context.Cause(ctx)
	}
	if st, ok := r.get(wrote()); ok {
		return st, nil
	}
	asked := time.Now()
	st, err := inOrder(ask(ctx))
	if err == nil {
		r.mu.Lock()
		r.asked, r.status = asked, st
		r.mu.Unlock()
	}
	return st, err
}

// inOrder returns a status with its lists sorted and not null. The lists are
// copies; the Holders of a pool are the Backend's.
func inOrder(st ipam.Status, err error) (ipam.Status, error) {
	if err != nil {
		return ipam.Status{}, err
	}
	st.Voters = append([]string{}, st.Voters...) // whose order means something
	st.Peers = sorted(st.Peers, func(a, b ipam.PeerStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	st.Pools = sorted(st.Pools, func(a, b ipam.PoolStatus) int { return a.Pool.Compare(b.Pool) })
	st.Networks = sorted(st.Networks, func(a, b ipam.NetStatus) int {
		return cmp.Or(a.Pool.Compare(b.Pool), cmp.Compare(a.ID, b.ID))
	})
	st.Problems = sorted(st.Problems, func(a, b ipam.Problem) int { return cmp.Compare(gravity(a), gravity(b)) })
	return st, nil
}

func sorted[T any](list []T, compare func(a, b T) int) []T {
	list = append([]T{}, list...)
	slices.SortStableFunc(list, compare)
	return list
}

// gravity puts what stops the handing out first.
func gravity(p ipam.Problem) int {
	if p.Level == string(ipam.Failed) {
		return 0
	}
	return 1
}

// live answers whenever the process can.
func live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n") // a client that has gone does not mind
}

// ready tells whether this peer hands out addresses. That other peers are
// missing, or somebody should look at something, does not matter to that.
func (s *Server) ready(ctx context.Context, _ *request) (answer, error) {
	st, err := s.snapshot(ctx)
	if err != nil {
		return answer{}, err
	}
	// Two containers with one address are no reason to send nobody here: others
	// get theirs.
	var why []string
	conflict := false
	for _, p := range st.Problems {
		switch {
		case p.Level != string(ipam.Failed):
		case p.Code == "conflict":
			conflict = true
		default:
			why = append(why, p.Text)
		}
	}
	if st.Verdict != ipam.Failed || conflict && len(why) == 0 {
		return answer{body: "ok\n"}, nil
	}
	return answer{}, &ipam.Error{
		Kind: ipam.ErrSuspended,
		Text: cmp.Or(strings.Join(why, "; "), "this host hands out no addresses: ringlet status says why"),
	}
}
