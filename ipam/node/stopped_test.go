package node_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/peer"
)

// A request that meets a disk that fails is told to see to the disk, and the log has the error.
func TestFailedCommitIsTold(t *testing.T) {
	var log bytes.Buffer
	d := &disk{records: machinetest.Disk{}}
	n, err := node.New(node.Config{
		Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))}, Store: d, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.fail = errors.New("input/output error")
	d.mu.Unlock()
	_, _, err = n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), "")
	want := "ringlet on host-a cannot write its database (input/output error): see to the disk, it starts again by itself"
	if !errors.Is(err, ipam.ErrStopped) || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log says:\n%s", &log)
	}
}

// A node that is stopped serves what has come, commits nothing later, and tells who asks then to come again. Nobody is at work on it.
func TestStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		d.hung = make(chan struct{})
		asked := make(chan error, 1)
		go func() {
			_, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), "")
			asked <- err
		}()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			n.Stop()
		}()
		synctest.Wait()
		const again = "ringlet on host-a is opening its database: run the command again"
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ipam.ErrStopped) || err.Error() != again {
				t.Errorf("%s: got %v, want %q", what, err, again)
			}
		}
		_, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.60.0.0/24"), "")
		refused("a request while it stops", err)
		select {
		case <-stopped:
			t.Error("it has stopped while a commit is under way")
		default:
		}
		close(d.hung)
		<-stopped
		if err := <-asked; err != nil {
			t.Errorf("what had come got %v", err)
		}
		if n.IsAtWork() {
			t.Error("somebody is at work on it")
		}
		tries := d.tried()
		_, _, err = n.CreatePool(t.Context(), netip.MustParsePrefix("10.60.0.0/24"), "")
		refused("a request later", err)
		_, err = n.Snapshot(t.Context())
		refused("a look", err)
		n.Present(ipam.Presence{Peer: peer.ID{1}, Alive: true})
		synctest.Wait()
		if got := d.tried(); got != tries {
			t.Errorf("%d batches came later", got-tries)
		}
	})
}

// Whoever asks a node that stands for one that cannot be made is told why at once, a guest, too.
func TestStoppedTellsGuests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		why := errors.New("no database")
		n := node.Stopped(why)
		for name, ctx := range map[string]context.Context{"a guest": node.AsGuest(t.Context()), "somebody": t.Context()} {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			begun := time.Now()
			if _, err := n.Addresses(ctx, ""); !errors.Is(err, why) || time.Since(begun) > 0 {
				t.Errorf("%s gets %v after %v", name, err, time.Since(begun))
			}
			cancel()
		}
	})
}

// Who waits when a node is stopped is told at once.
func TestStopTellsWhoWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, &disk{}, ipam.Config{AwaitInventory: true})
		done := make(chan error, 1)
		go func() {
			_, err := n.RequestAddress(t.Context(), request("web"))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		begun := time.Now()
		n.Stop()
		if err := <-done; !errors.Is(err, ipam.ErrStopped) || time.Since(begun) > 0 {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}
