package main

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ringlet/ringlet/internal/heap"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// fill makes a database in dir in which so many addresses are held, each by a
// container with a name, a MAC and an ID.
func fill(tb testing.TB, dir string, held int) {
	tb.Helper()
	store, n := plugintest.Open(tb, dir)
	pool := netip.MustParsePrefix("10.0.0.0/8")
	net := ipam.Network{Space: ipam.Local, Pool: pool, Range: pool}
	const callers = 256 // share commits
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < held; i += callers {
				_, err := n.RequestAddress(tb.Context(), ipam.AddressRequest{
					Network: net, Purpose: ipam.ForContainer, Name: fmt.Sprintf("container-%d", i),
					MAC: ipam.MAC{2, 0x42, byte(i >> 16), byte(i >> 8), byte(i), 1}, ID: fmt.Sprintf("%064x", i),
				})
				if err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := store.Close(); err != nil {
		tb.Fatal(err)
	}
}

// heldForBenchmarks is what perf goals P8 and P9 are stated for.
const heldForBenchmarks = 100_000

// BenchmarkStart is the start of a peer that holds 100,000 addresses: from the
// closed file to a machine that can answer.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, heldForBenchmarks)
	for b.Loop() {
		store, _ := plugintest.Open(b, dir)
		b.StopTimer()
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkMemory reports the heap that 100,000 held addresses take, each with
// its holder's name, MAC and ID.
func BenchmarkMemory(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, heldForBenchmarks)
	for b.Loop() {
		before := heap.InUse()
		store, n := plugintest.Open(b, dir)
		b.ReportMetric(float64(heap.InUse()-before)/heldForBenchmarks, "B/address")
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		runtime.KeepAlive(n)
	}
}

// BenchmarkAllocateAmongMany is one durable allocation and its release while
// so many others are held: it must not grow with them.
func BenchmarkAllocateAmongMany(b *testing.B) {
	for _, held := range []int{0, heldForBenchmarks} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			dir := b.TempDir()
			fill(b, dir, held)
			store, n := plugintest.Open(b, dir)
			pool := netip.MustParsePrefix("10.0.0.0/8")
			net := ipam.Network{Space: ipam.Local, Pool: pool, Range: pool}
			b.ReportAllocs()
			for b.Loop() {
				g, err := n.RequestAddress(b.Context(), ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, Name: "one-more"})
				if err != nil {
					b.Fatal(err)
				}
				if err := n.ReleaseAddress(b.Context(), net, g.Address.Addr()); err != nil {
					b.Fatal(err)
				}
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// What many hold is there after a restart, to the last name.
func TestManyHeldSurviveARestart(t *testing.T) {
	const held = 5_000
	dir := t.TempDir()
	fill(t, dir, held)
	store, n := plugintest.Open(t, dir)
	list, err := n.Addresses(t.Context(), "10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range list {
		if a.State == "held" {
			names[a.Name] = true
			if want := strings.TrimLeft(a.Container, "0"); a.MAC == "" || len(a.Container) != 64 || len(want) > 5 {
				t.Fatalf("%+v", a)
			}
		}
	}
	if len(names) != held {
		t.Errorf("%d containers hold addresses, want %d", len(names), held)
	}
	if broken, err := n.Check(t.Context()); err != nil || len(broken.Broken)+len(broken.Database) > 0 {
		t.Errorf("check: %v, %v", broken, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A database that the core cannot make sense of is refused, not overwritten.
func TestForeignDatabaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	logger := slog.New(slog.DiscardHandler)
	path := filepath.Join(dir, databaseName)
	store, err := persist.Open(persist.Config{Path: path, Schema: ipam.SchemaVersion, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Commit(func(put func(bucket string, key, value []byte) error) error {
		return put("something", []byte("else"), []byte("entirely"))
	})
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.New(node.Config{Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, Store: store, Logger: logger}); err == nil {
		t.Error("a foreign database is used")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the foreign database was changed (%v)", err)
	}
}
