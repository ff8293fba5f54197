package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/heap"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// alone is a peer without pools.
type alone struct{ self ipam.Identity }

func (a alone) Snapshot(context.Context) (ipam.Status, error) {
	return ipam.Status{State: ipam.Alone, Cluster: "0102030405060708090a0b0c0d0e0f10"}, nil
}

func (alone) List(context.Context, ipam.Listing) (ipam.Portion, error) { return ipam.Portion{}, nil }

// recorder is a carrier that keeps to whom something was sent.
type recorder struct{ to []peer.ID }

func (r *recorder) Send(to peer.ID, _ ...[]byte) { r.to = append(r.to, to) }
func (*recorder) Broadcast([]byte)               {}
func (*recorder) Queued() int                    { return 0 }
func (*recorder) SetDigest(uint64)               {}
func (*recorder) Living() []peer.ID              { return nil }

// full is a peer that holds many addresses, each by a container.
type full struct{ held int }

var fullPool = netip.MustParsePrefix("10.0.0.0/8")

func (full) Snapshot(context.Context) (ipam.Status, error) {
	return ipam.Status{State: ipam.Alone, Cluster: "0102030405060708090a0b0c0d0e0f10", Pools: []ipam.PoolStatus{{Pool: fullPool}}}, nil
}

func (f full) List(_ context.Context, q ipam.Listing) (out ipam.Portion, _ error) {
	const limit = 500
	first := 0
	if q.After.IsValid() {
		b := q.After.As4()
		first = int(binary.BigEndian.Uint32(b[:])&0xffffff) + 1
	}
	for i := first; i < min(f.held, first+limit); i++ {
		out.Addresses = append(out.Addresses, ipam.AddressStatus{
			Address: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), Pool: fullPool, Peer: "host-a", State: "held", Kind: "container",
			Container: fmt.Sprintf("%064x", i), Name: fmt.Sprintf("container-%07d", i), MAC: fmt.Sprintf("02:42:%02x:%02x:%02x:01", i>>16, i>>8&255, i&255), Since: time.Unix(1.7e9, int64(i)).UTC(),
		})
	}
	if n := len(out.Addresses); n == limit {
		out.Next = out.Addresses[n-1].Address
	}
	return out, nil
}

// What a peer says of an address takes less than 120 bytes, also when no engine
// tells of services; what it no longer holds goes with the next comparison.
func TestMemory(t *testing.T) {
	const held = 20_000
	d, err := New(Config{
		Self: hostA, Cluster: "test", Source: full{held}, Log: events.New(1, 0, 0),
		About: func() Node { return Node{} }, Logger: slog.New(slog.DiscardHandler),
		Containers: func(context.Context, []string) (map[string]Container, error) { return nil, errors.New("no engine") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range keptEvents { // those of the last changes are no more with more addresses
		d.watched.Put(replica.Event{Key: HeartKey("test"), Value: make([]byte, 400)})
	}
	p := &publisher{Directory: d, now: map[netip.Addr]Address{}, services: newServices(d.cfg, d.containers)}
	before := heap.InUse()
	if err := p.compareAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.services.resolve(t.Context())
	each := float64(heap.InUse()-before) / held
	fmt.Fprintf(t.Output(), "%.0f bytes for each address\n", each)
	if each > 120 && !testing.Short() {
		t.Errorf("an address takes %.0f bytes", each)
	}
	if got := len(d.replica.Own(AddressKeys("test"))); got != held {
		t.Errorf("%d addresses are told, want %d", got, held)
	}
	list, upTo := d.containers(0, maxAsked)
	if more, _ := d.containers(upTo, maxAsked); len(list) != maxAsked || len(more) != maxAsked || more[0].Address != list[maxAsked-1].Address.Next() {
		t.Errorf("after %v of %d containers come %v", list[len(list)-1], len(list), more[0])
	}
	p.cfg.Source = full{held / 2}
	if err := p.compareAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(d.replica.Own(AddressKeys("test"))); got != held/2 {
		t.Errorf("%d addresses are told, want %d", got, held/2)
	}
	runtime.KeepAlive(p)
}

// hostA is the peer whose directory tests look at.
var hostA = ipam.Identity{ID: peer.ID{1}, Name: "host-a", Boot: 1}

// running is a directory that runs in a bubble, until end is called. There may be no carrier.
func running(t *testing.T, source Source, log *events.Log, c Carrier) (d *Directory, end func()) {
	t.Helper()
	d, err := New(Config{
		Self: hostA, Cluster: "test", Source: source, Log: log,
		About: func() Node { return Node{} }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		d.Carry(c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	synctest.Wait()
	return d, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// slow is a peer whose disk is slow: its snapshot is from before it had a pool.
type slow struct {
	alone
	full
}

func (s slow) Snapshot(ctx context.Context) (ipam.Status, error) { return s.alone.Snapshot(ctx) }
func (s slow) List(ctx context.Context, q ipam.Listing) (ipam.Portion, error) {
	return s.full.List(ctx, q)
}

// What is held is told also while the last known status lacks its pool.
func TestCompareOnSlowDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, end := running(t, slow{full: full{3}}, events.New(1, 0, 0), nil)
		if got := len(d.replica.Own(AddressKeys("test"))); got != 3 {
			t.Errorf("%d addresses are told, want 3", got)
		}
		end()
	})
}

// TestHeard compares with who shows another digest, and with nobody who shows
// the same, or none.
func TestHeard(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := &recorder{}
		d, end := running(t, alone{hostA}, events.New(1, 0, 0), r)
		d.Heard(peer.ID{2}, 0)
		synctest.Wait()
		d.Heard(peer.ID{3}, d.digest.Load())
		synctest.Wait()
		d.Heard(peer.ID{4}, d.digest.Load()+1)
		synctest.Wait()
		end()
		if want := []peer.ID{{4}}; !slices.Equal(r.to, want) {
			t.Errorf("compared with %v, want %v", r.to, want)
		}
	})
}
