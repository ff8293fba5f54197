package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
)

// hang has the node wait for its disk until the returned function is called.
func hang(t *testing.T, n *node.Node, d *disk) (mend func()) {
	t.Helper()
	hung := make(chan struct{})
	d.hung = hung
	go func() { _, _ = n.RequestAddress(t.Context(), request("stuck")) }()
	synctest.Wait()
	return func() { close(hung) }
}

func isStuck(s ipam.Status) bool {
	return slices.ContainsFunc(s.Problems, func(p ipam.Problem) bool { return p.Code == "not-answering" })
}

// However long the disk hangs, and however many ask, each has the last status
// within 100 ms, and no more than one waits for the machine.
func TestSnapshotDoesNotWaitForTheDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		if _, _, err := n.CreatePool(t.Context(), network.Pool, "lab"); err != nil {
			t.Fatal(err)
		}
		known, err := n.Snapshot(t.Context())
		if err != nil || len(known.Pools) != 1 || isStuck(known) {
			t.Fatalf("before anything is wrong: %+v, %v", known, err)
		}
		mend := hang(t, n, d)
		begun := time.Now()
		for _, after := range []time.Duration{0, time.Second, 4 * time.Second, 10 * time.Second, time.Hour} {
			time.Sleep(after - time.Since(begun))
			asked := time.Now()
			s, err := n.Snapshot(t.Context())
			if took := time.Since(asked); err != nil || took > 100*time.Millisecond {
				t.Fatalf("after %v: answered after %v with %v", after, took, err)
			}
			if want := after >= 10*time.Second; isStuck(s) != want || (s.Verdict == ipam.Failed) != want || !s.AsOf.Equal(known.AsOf) || len(s.Pools) != 1 {
				t.Errorf("after %v: verdict %s, as of %v (want %v), problems %+v", after, s.Verdict, s.AsOf, known.AsOf, s.Problems)
			}
		}
		last, _ := n.Snapshot(t.Context())
		if text := last.Problems[len(last.Problems)-1].Text; !strings.Contains(text, "has not answered for 1h0m0s") || !strings.Contains(text, known.AsOf.Format("15:04:05")) {
			t.Errorf("the problem reads %q", text)
		}
		mend()
		synctest.Wait()
		s, err := n.Snapshot(t.Context())
		if err != nil || isStuck(s) || s.Verdict != ipam.Fine || !s.AsOf.Equal(time.Now()) || s.Pools[0].Held != 1 {
			t.Errorf("afterwards: %+v, %v", s, err)
		}
	})
}

// A snapshot shows what its caller has done, as long as the disk is well.
func TestSnapshotShowsWhatWasDone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{slow: 10 * time.Millisecond}
		n := start(t, d, ipam.Config{})
		for i, name := range []string{"a", "b", "c"} {
			if _, err := n.RequestAddress(t.Context(), request(name)); err != nil {
				t.Fatal(err)
			}
			if s, err := n.Snapshot(t.Context()); err != nil || s.Pools[0].Held != uint64(i+1) {
				t.Errorf("after %d grants: %+v, %v", i+1, s.Pools, err)
			}
		}
	})
}

func TestSnapshotOfAFailedNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		d.fail = errors.New("no space left on device")
		_, _ = n.RequestAddress(t.Context(), request("web"))
		if _, err := n.Snapshot(t.Context()); !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
}

// Whoever has gone gets what there is.
func TestSnapshotForACallerWhoHasGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		mend := hang(t, n, d)
		defer synctest.Wait()
		defer mend()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s, err := n.Snapshot(ctx); err != nil || s.Cluster == "" {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}
