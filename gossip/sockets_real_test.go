package gossip_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// actual is a peer on the loopback interface.
type actual struct {
	*gossip.Gossip
	id   peer.ID
	stop func()

	mu     sync.Mutex
	frames []*wire.Frame
}

// loopback has any free port: no test may count on a fixed one.
func loopback() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:0") }

func startReal(t *testing.T, n int, change ...func(*gossip.Config)) *actual {
	t.Helper()
	r := &actual{id: idOf(n)}
	cfg := gossip.Config{
		ID: r.id, Name: "real", Boot: 1, Nonce: uint64(n), Bind: loopback(),
		// A port that one test has closed may be another's next one.
		Label:   fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(t.Name()))),
		Keys:    func() ([][]byte, error) { return [][]byte{key(1)}, nil },
		Deliver: each(r.deliver(t)), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if r.Gossip, err = gossip.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *actual) deliver(t *testing.T) func([]byte, int) {
	t.Helper()
	return func(frame []byte, _ int) {
		f, err := wire.Decode(frame)
		if err != nil {
			t.Errorf("delivered: %v", err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.frames = append(r.frames, f)
	}
}

func (r *actual) frame(body wire.Body) []byte {
	return wire.Encode(nil, &wire.Frame{Header: wire.Header{From: r.id, Boot: 1, Nonce: 1}, Body: body})
}

func (r *actual) received(like func(*wire.Frame) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.frames, like)
}

// soon waits until something holds, for longer than any machine needs.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s", what)
		}
	}
}

// opened returns where a peer listens, once it does.
func (r *actual) opened(t *testing.T) netip.AddrPort {
	t.Helper()
	soon(t, "open", func() bool { return r.Status().Self.IsValid() })
	return r.Status().Self
}

func joining(addrs ...netip.AddrPort) func(*gossip.Config) {
	return func(cfg *gossip.Config) {
		for _, a := range addrs {
			cfg.Join = append(cfg.Join, a.String())
		}
	}
}

// TestSockets lets three peers find each other and talk in every way.
func TestSockets(t *testing.T) {
	t.Parallel()
	a := startReal(t, 1)
	first := a.opened(t)
	peers := []*actual{a, startReal(t, 2, joining(first)), startReal(t, 3, joining(first))}
	soon(t, "together", func() bool {
		for _, p := range peers {
			if p.Status().Alive != 2 {
				return false
			}
		}
		return true
	})
	b := peers[1]
	state, lost := make([]byte, 4<<20), uint64(0)
	b.Send(a.id, b.frame(wire.Snapshot{State: state}))
	soon(t, "sent", func() bool {
		// A very busy machine takes longer than a frame is tried for.
		if c := b.Status().Counts; c.Failed+c.Dropped > lost {
			lost = c.Failed + c.Dropped
			b.Send(a.id, b.frame(wire.Snapshot{State: state}))
		}
		return a.received(func(f *wire.Frame) bool {
			s, ok := f.Body.(wire.Snapshot)
			return ok && len(s.State) == len(state) && f.From == b.id
		})
	})
	b.Broadcast(b.frame(wire.Pull{After: 7}))
	soon(t, "broadcast", func() bool {
		return a.received(func(f *wire.Frame) bool { return f.Body == wire.Pull{After: 7} })
	})
	b.SetHeartbeat(b.frame(wire.Beat{}))
	soon(t, "heard on a probe", func() bool {
		return a.received(func(f *wire.Frame) bool { return f.Body == wire.Beat{} })
	})
	peers[2].stop()
	soon(t, "gone after it left", func() bool { return a.Status().Alive == 1 })
}

// TestPortTaken opens a port as soon as somebody else has closed it.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	addr := netip.MustParseAddrPort(squatter.Addr().String())
	p := startReal(t, 1, func(cfg *gossip.Config) { cfg.Bind = addr })
	soon(t, "told", func() bool {
		problems := p.Status().Problems
		return len(problems) == 1 && problems[0].Code == "network-closed"
	})
	squatter.Close()
	if got := p.opened(t); got != addr {
		t.Errorf("listens on %v, want %v", got, addr)
	}
}

// TestNeverReads has a peer that accepts connections and reads nothing, as one
// that was stopped with SIGSTOP does: the kernel accepts for it.
func TestNeverReads(t *testing.T) {
	t.Parallel()
	stopped, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	a := startReal(t, 1)
	b := startReal(t, 2, joining(a.opened(t)), func(cfg *gossip.Config) {
		cfg.Remembered = []gossip.Contact{{ID: idOf(3), Addr: netip.MustParseAddrPort(stopped.Addr().String())}}
	})
	soon(t, "together", func() bool { return b.Status().Alive == 1 })
	b.Send(idOf(3), b.frame(wire.Snapshot{State: make([]byte, 12<<20)})) // more than the kernel buffers
	b.Send(a.id, b.frame(wire.Pull{After: 1}))
	soon(t, "sent to the other peer", func() bool {
		return a.received(func(f *wire.Frame) bool { return f.Body == wire.Pull{After: 1} })
	})
	soon(t, "failed at its deadline", func() bool { return b.Status().Counts.Failed == 1 })
}

// TestStopWhileStuck ends while a peer does not read and others do not answer.
func TestStopWhileStuck(t *testing.T) {
	t.Parallel()
	stopped, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	addr := netip.MustParseAddrPort(stopped.Addr().String())
	p := startReal(t, 1, joining(addr), func(cfg *gossip.Config) {
		cfg.Remembered = []gossip.Contact{{ID: idOf(2), Addr: addr}}
	})
	p.opened(t)
	p.Send(idOf(2), p.frame(wire.Snapshot{State: make([]byte, 12<<20)}))
	p.stop() // the test ends, or its time is over
}

// TestDeadHosts joins among fifty hosts at which nothing listens, or of which
// the kernel alone still answers.
func TestDeadHosts(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen=%v", frozen), func(t *testing.T) {
			t.Parallel()
			a := startReal(t, 1)
			var join []netip.AddrPort
			var hosts []net.Listener // all of them, so that no port comes twice
			for range 50 {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				hosts = append(hosts, l)
				join = append(join, netip.MustParseAddrPort(l.Addr().String()))
			}
			if !frozen {
				for _, l := range hosts {
					l.Close()
				}
			}
			b := startReal(t, 2, joining(append(join, a.opened(t))...))
			soon(t, "together", func() bool { return a.Status().Alive == 1 && b.Status().Alive == 1 })
		})
	}
}

// TestDualStack listens on IPv6 and IPv4 and is one and the same to peers of
// either family.
func TestDualStack(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skipf("no IPv6 on the loopback interface: %v", err)
	} else {
		l.Close()
	}
	a := startReal(t, 1, func(cfg *gossip.Config) {
		cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("[::]:0"), netip.MustParseAddrPort("[::ffff:127.0.0.1]:0")
	})
	self := a.opened(t)
	if !self.Addr().Is4() {
		t.Errorf("%v is advertised, want the IPv4 form", self)
	}
	b := startReal(t, 2, joining(netip.AddrPortFrom(netip.IPv6Loopback(), self.Port())), func(cfg *gossip.Config) {
		cfg.Bind, cfg.Advertise = netip.MustParseAddrPort("[::]:0"), netip.MustParseAddrPort("[::1]:0")
	})
	soon(t, "together", func() bool { return a.Status().Alive == 1 && b.Status().Alive == 1 })
	a.Send(b.id, a.frame(wire.Pull{After: 1}))
	soon(t, "sent", func() bool { return b.received(func(f *wire.Frame) bool { return f.Body == wire.Pull{After: 1} }) })
}

// Whoever looks whether the port is open, or sends what is no packet of a peer's, is
// no peer of another cluster, and no problem.
func TestPortThatIsLookedAt(t *testing.T) {
	t.Parallel()
	var log text
	a := startReal(t, 1, func(cfg *gossip.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	at := a.opened(t)
	for _, said := range []string{"", "GET / HTTP/1.1\r\n\r\n"} {
		for _, network := range []string{"tcp", "udp"} {
			conn, err := net.Dial(network, at.String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte(said)); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		}
	}
	soon(t, "refused", func() bool { // a stream without a byte, and one and a packet without a label
		refused := a.Status().Counts.Refused
		return refused["cut"] == 1 && refused["unlabelled"] == 2
	})
	if got := a.Status().Problems; len(got) > 0 || log.count("level=WARN") > 0 {
		t.Errorf("problems %+v, and the log has\n%s", got, &log)
	}
	startReal(t, 2, joining(at), func(cfg *gossip.Config) { cfg.Label = "other" })
	soon(t, "noticed that there is a peer of another cluster", func() bool { return len(a.Status().Problems) == 1 })
}

// text is a log that grows while it is read.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func (t *text) count(what string) int { return strings.Count(t.String(), what) }
