package cli

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// slow is a peer that waits for a majority before it makes a pool.
type slow struct {
	*fixture
	decided chan struct{}
}

func (s slow) CreatePool(ctx context.Context, cidr netip.Prefix, name string) (ipam.PoolStatus, bool, error) {
	select {
	case <-s.decided:
	case <-ctx.Done():
		return ipam.PoolStatus{}, false, ctx.Err()
	}
	return s.fixture.CreatePool(ctx, cidr, name)
}

// heard calls f once something has been written.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
	f    func()
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.f != nil {
		h.f()
		h.f = nil
	}
	return h.text.Write(b)
}

// A change that takes long says what it waits for; one that is interrupted says that it may happen all the same.
func TestChangeThatWaits(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		peer := alone()
		peer.st.Peers = append(peer.st.Peers, ipam.PeerStatus{ID: "bb", Name: "host-b", State: "active"})
		s := slow{peer, make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		errs := &heard{f: func() {
			if interrupted {
				stop()
			} else {
				close(s.decided)
			}
		}}
		var out strings.Builder
		code := Execute(ctx, Config{Out: &out, Err: errs}, []string{"ringlet", "pool", "create", "10.70.0.0/24", "--socket", serve(t, s)})
		want, wantCode := "waiting for the other hosts, 20s at most: host-b cannot be reached; Ctrl-C ends the wait, not the change\n", 0
		if interrupted {
			want, wantCode = want+"ringlet: interrupted: what you asked for may be done all the same, as soon as enough hosts agree; see ringlet status\n", 1
		}
		if code != wantCode || errs.text.String() != want || (out.Len() > 0) == interrupted {
			t.Errorf("code %d, printed %q, said %q, want %q", code, out.String(), errs.text.String(), want)
		}
	}
}

// The status is shown again and again, also of a peer that does not answer meanwhile, until the user has seen enough.
func TestStatusIsWatched(t *testing.T) {
	t.Parallel()
	f := alone()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &heard{}
	looks := 0
	again := func() {
		if looks++; looks == 3 {
			stop()
		}
	}
	w := writer(func(b []byte) (int, error) {
		if strings.Contains(string(b), "fine: ready") {
			again()
		}
		return out.Write(b)
	})
	code := Execute(ctx, Config{Out: w, Err: out, columns: 80, lookEvery: time.Millisecond}, []string{"ringlet", "status", "--watch", "--socket", serve(t, f)})
	if got := out.text.String(); code != 0 || strings.Count(got, "fine: ready") < 3 || strings.Count(got, clearScreen) < 3 {
		t.Errorf("code %d, printed %q", code, got)
	}
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	lost, misses := &heard{}, 0
	w = func(b []byte) (int, error) {
		if misses += strings.Count(string(b), "cannot be reached"); misses >= 2 {
			leave()
		}
		return lost.Write(b)
	}
	code = Execute(gone, Config{Out: w, Err: w, lookEvery: time.Millisecond}, []string{"ringlet", "status", "--watch", "--socket", t.TempDir() + "/none"})
	if got := lost.text.String(); code != 0 || strings.Count(got, "cannot be reached") < 2 {
		t.Errorf("code %d, printed %q", code, got)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
