package gossip_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/wire"
)

// crowd is strangers who hold as many streams to a host as they get, each from
// an address of its own: those that are closed are opened again.
type crowd struct {
	cancel  context.CancelFunc
	holding sync.WaitGroup
}

// crowdOut begins to hold so many streams of each of four addresses to some hosts. What is said on each is what first is, and then filler.
func crowdOut(t *testing.T, label string, streams int, announced uint32, filler []byte, pause time.Duration, hosts ...netip.AddrPort) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{cancel: cancel}
	t.Cleanup(func() { c.cancel(); c.holding.Wait() })
	first := append([]byte{244, byte(len(label))}, label...)
	if announced > 0 {
		first = append(binary.BigEndian.AppendUint32(append(first, 10), announced), 1)
	}
	for _, host := range hosts {
		for source := range 4 {
			from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(11+source))}
			for range streams {
				c.holding.Go(func() {
					for ctx.Err() == nil {
						hold(ctx, from, host, first, filler)
						select { // they share the processors with the host
						case <-ctx.Done():
						case <-time.After(pause):
						}
					}
				})
			}
		}
	}
}

// hold opens a stream, says something, and waits until it is closed.
func hold(ctx context.Context, from net.Addr, to netip.AddrPort, said ...[]byte) {
	conn, err := (&net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	for _, b := range said {
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
	_, _ = conn.Read(make([]byte, 1)) // it is never answered: this returns once the stream is closed
}

// TestJoinAmongStrangers has four sources hold all the streams, and all the bytes of streams, that they can, of two hosts. The
// second one joins the first all the same and each gets a snapshot of 1 MiB from the other, within ten seconds.
func TestJoinAmongStrangers(t *testing.T) {
	for name, tt := range map[string]struct {
		streams   int
		announced uint32
		filler    int
		pause     time.Duration
	}{
		"by number": {140, 0, 0, 10 * time.Millisecond},                     // more than one address may have
		"by bytes":  {24, 1<<20 - 100, 1<<20 - 200, 200 * time.Millisecond}, // three times what strangers may have

	} {
		t.Run(name, func(t *testing.T) {
			if raceEnabled && tt.filler > 0 {
				t.Skip("skipped: what strangers send and what the host does share the processors, of which the race detector takes most")
			}
			a := startReal(t, 1, func(cfg *gossip.Config) { cfg.Label = "crowd" })
			first := a.opened(t)
			second := freePort(t, "127.0.0.2")
			crowdOut(t, "crowd", tt.streams, tt.announced, make([]byte, tt.filler), tt.pause, first, second)
			soon(t, "full of strangers", func() bool { return a.Status().Counts.Refused["room"] > 0 })
			begun := time.Now()
			b := startReal(t, 2, joining(first), func(cfg *gossip.Config) { cfg.Label, cfg.Bind = "crowd", second })
			soon(t, "together", func() bool { return a.Status().Alive == 1 && b.Status().Alive == 1 })
			together := time.Since(begun)
			state := make([]byte, 1<<20)
			got := func(at, from *actual) bool {
				return at.received(func(f *wire.Frame) bool {
					s, ok := f.Body.(wire.Snapshot)
					return ok && len(s.State) == len(state) && f.From == from.id
				})
			}
			var last time.Time
			soon(t, "snapshots there", func() bool {
				if time.Since(last) > time.Second { // the core asks again as well
					last = time.Now()
					a.Send(b.id, a.frame(wire.Snapshot{State: state}))
					b.Send(a.id, b.frame(wire.Snapshot{State: state}))
				}
				return got(a, b) && got(b, a)
			})
			took := time.Since(begun)
			t.Logf("together after %v, snapshots there after %v; refused: %v and %v", together, took, a.Status().Counts.Refused, b.Status().Counts.Refused)
			if limit := 10 * time.Second; took > limit && !raceEnabled { // which takes several times as long
				t.Errorf("it took %v, want at most %v", took, limit)
			}
		})
	}
}

// freePort returns an address with a port that is free just now, for TCP and UDP.
func freePort(t *testing.T, addr string) netip.AddrPort {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:0", addr))
		if err != nil {
			t.Fatal(err)
		}
		packets, err := net.ListenPacket("udp", l.Addr().String())
		l.Close()
		if err == nil {
			packets.Close()
			return netip.MustParseAddrPort(l.Addr().String())
		}
	}
	t.Fatal("no port was free for TCP and UDP")
	return netip.AddrPort{}
}
