package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

// leaver is a Backend whose Leave ends as told.
type leaver struct {
	*memory
	leave func(ctx context.Context) error
}

func (l leaver) Leave(ctx context.Context, _ bool) error { return l.leave(ctx) }

// A request to leave is answered soon, with what has become of it by then.
func TestLeaving(t *testing.T) {
	refuse := func(kind error) func(context.Context) error {
		return func(context.Context) error { return &ipam.Error{Kind: kind, Text: "no"} }
	}
	forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name  string
		leave func(ctx context.Context) error
		state ipam.State // afterwards
		code  int
		took  time.Duration
	}{
		{"has left", func(context.Context) error { return nil }, ipam.Left, 200, 0},
		{"goes on", forever, ipam.Leaving, 202, leaveWait},
		{"goes on, says the peer", refuse(ipam.ErrNotReady), ipam.Leaving, 202, 0},
		{"has left in this very moment", forever, ipam.Left, 200, leaveWait},
		{"has not begun", forever, ipam.Checking, 504, leaveWait},
		{"has not begun, says the peer", refuse(ipam.ErrNotReady), ipam.Joining, 503, 0},
		{"cut off", refuse(ipam.ErrUnreachable), ipam.Leaving, 503, 0},
		{"refused", refuse(ipam.ErrPoolInUse), ipam.Ready, 409, 0},
		{"broken", func(context.Context) error { return errDisk }, ipam.Leaving, 500, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				m := newMemory()
				m.state = tt.state
				s, _ := logged(t, Config{Backend: leaver{m, tt.leave}})
				begun := time.Now()
				w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/self/leave", strings.NewReader("{}"))
				if took := time.Since(begun); w.Code != tt.code || took != tt.took {
					t.Errorf("got %d %s after %v, want %d after %v", w.Code, w.Body, took, tt.code, tt.took)
				}
				var d Departure
				if err := json.Unmarshal(w.Body.Bytes(), &d); w.Code < 300 && (err != nil || d != Departure{State: tt.state, Owned: 6}) {
					t.Errorf("got %s, %v", w.Body, err)
				}
				if where := w.Header().Get("Location"); (where == "/v1/status") != (w.Code == http.StatusAccepted) {
					t.Errorf("location %q with status %d", where, w.Code)
				}
			})
		})
	}
}

// A client that has gone is no reason to tell that the peer leaves.
func TestLeavingAndGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newMemory()
	m.hook = func(ctx context.Context) error { return ctx.Err() }
	s, _ := logged(t, Config{Backend: leaver{m, func(ctx context.Context) error { cancel(); return context.Cause(ctx) }}})
	if w, _ := ask(ctx, s.Handler(), "POST", "/v1/self/leave", strings.NewReader("{}")); w.Code < 400 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestDepartureOf(t *testing.T) {
	a := netip.MustParseAddr
	st := ipam.Status{
		State: ipam.Leaving, Self: ipam.PeerStatus{ID: "aa"},
		Pools: []ipam.PoolStatus{{
			Pool: netip.MustParsePrefix("10.0.0.0/24"), Resting: 5, RestingHere: 2,
			Holders: []ipam.RangeStatus{
				{Start: a("10.0.0.1"), End: a("10.0.0.4"), Owner: "aa", Held: 2},
				{Start: a("10.0.0.5"), End: a("10.0.0.9"), Owner: "bb", Held: 7},
				{Start: a("10.0.0.10"), End: a("10.0.0.10"), Owner: "aa", Held: 1},
				{Start: a("10.0.0.20"), End: a("10.0.0.11"), Owner: "aa"}, // contradicts itself
			},
		}, {
			Pool:    netip.MustParsePrefix("fd00::/64"),
			Holders: []ipam.RangeStatus{{Start: a("fd00::"), End: a("fd00::ff"), Owner: "aa"}, {Start: a("10.0.0.1"), End: a("10.0.0.4"), Owner: "aa"}},
		}},
	}
	if diff := cmp.Diff(Departure{State: ipam.Leaving, Owned: 4 + 1 + 256, Held: 3, Resting: 2}, DepartureOf(st)); diff != "" {
		t.Errorf("departure (-want +got):\n%s", diff)
	}
}

// Shares of IPv6 pools that add up to 2^64 are not taken for none.
func TestHalvesOfTwoIPv6Pools(t *testing.T) {
	st := ipam.Status{Self: ipam.PeerStatus{ID: "aa"}, Peers: []ipam.PeerStatus{{ID: "aa", State: stateEvicted}}}
	for _, cidr := range []string{"fd00::/65", "fd01::/65"} {
		p := netip.MustParsePrefix(cidr)
		st.Pools = append(st.Pools, ipam.PoolStatus{Pool: p, Holders: []ipam.RangeStatus{{Start: p.Addr(), End: lastOf(p), Owner: "aa"}}})
	}
	if owned, kept := DepartureOf(st).Owned, KeptBack(st)["aa"]; owned != math.MaxUint64 || kept != math.MaxUint64 {
		t.Errorf("%d owned, and %d kept back", owned, kept)
	}
}

// Every error of package ipam has a status of its own choosing: none reaches a
// client as an internal error because it was forgotten here.
func TestNoErrorIsForgotten(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../ipam/sentence/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		lit, ok := call.Args[0].(*ast.BasicLit)
		if fun, isSel := call.Fun.(*ast.SelectorExpr); !ok || !isSel || fun.Sel.Name != "New" {
			return true
		}
		code, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		kind := errors.New(code)
		if p, known := problemOf(fmt.Errorf("layer: %w", &ipam.Error{Kind: kind, Text: "no"}), time.Second); !known || p.Code != code {
			t.Errorf("an error %s becomes %d %s", code, p.Status, p.Code)
		}
		n++
		return true
	})
	if n < 15 {
		t.Errorf("only %d errors were looked at", n)
	}
}

// counting is a backend whose Status needs time in its context, as the node's.
type counting struct{ leaver }

func (c counting) Status(ctx context.Context) (ipam.Status, error) {
	if err := ctx.Err(); err != nil {
		return ipam.Status{}, err
	}
	return c.memory.Status(ctx)
}

// A request to leave is answered with how far the peer is, also where
// RINGLET_TIMEOUT is as short as it may be.
func TestLeavingWithAShortTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 2 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			m := newMemory()
			m.state = ipam.Leaving
			forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			s, _ := logged(t, Config{Backend: counting{leaver{m, forever}}, Timeout: timeout})
			if w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/self/leave", strings.NewReader("{}")); w.Code != 202 {
				t.Errorf("timeout %v: got %d %s", timeout, w.Code, w.Body)
			}
		})
	}
}
