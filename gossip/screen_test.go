package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip/guard"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam/peer"
)

// foreigners returns a gossip that knows 10.0.0.1, and what is a problem for it.
func foreigners(t *testing.T) (g *Gossip, problems func(now time.Time) []string) {
	t.Helper()
	cfg := goodConfig()
	cfg.Label = "test"
	cfg.Remembered = []Contact{{ID: peer.ID{7}, Addr: netip.MustParseAddrPort("10.0.0.1:7950")}}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g, func(now time.Time) (codes []string) {
		for _, p := range g.diagnostics.problems(now) {
			codes = append(codes, p.Code+" "+strings.Fields(p.Text)[0])
		}
		return codes
	}
}

// TestOnePacketIsNoProblem has strangers of all kinds seen, once and again.
func TestOnePacketIsNoProblem(t *testing.T) {
	begin := time.Now()
	known, unknown := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")
	for name, tt := range map[string]struct {
		from   netip.Addr
		why    guard.Reason
		stream bool
		times  []time.Duration
		want   string
	}{
		"a packet of a known address":             {known, guard.Label, false, []time.Duration{0}, ""},
		"many at once":                            {known, guard.Label, false, []time.Duration{0, 1, 2, time.Second}, ""},
		"two of them, seconds apart":              {known, guard.Label, false, []time.Duration{0, sureAfter}, "foreign-label 10.0.0.1"},
		"two of them, minutes apart":              {known, guard.Label, false, []time.Duration{0, foreignFor + 1}, ""},
		"packets of anywhere":                     {unknown, guard.Key, false, []time.Duration{0, sureAfter, 2 * sureAfter}, ""},
		"a stream of anywhere":                    {unknown, guard.Key, true, []time.Duration{0}, ""},
		"streams of anywhere":                     {unknown, guard.Key, true, []time.Duration{0, sureAfter}, "foreign-key 10.0.0.9"},
		"streams that are not encrypted":          {known, guard.Plain, true, []time.Duration{0, sureAfter}, "unencrypted-peer 10.0.0.1"},
		"streams that are, where there is no key": {known, guard.Encrypted, true, []time.Duration{0, sureAfter}, "no-key 10.0.0.1"},
		"who looks whether the port is open":      {known, guard.Cut, true, []time.Duration{0, sureAfter}, ""},
		"what is no peer":                         {known, guard.Unlabelled, true, []time.Duration{0, sureAfter}, ""},
	} {
		g, problems := foreigners(t)
		now := begin
		for _, after := range tt.times {
			now = begin.Add(after)
			g.screen.refuse(tt.why, tt.from, tt.stream, now)
		}
		if got := strings.Join(problems(now), ", "); got != tt.want {
			t.Errorf("%s: got the problems %q, want %q", name, got, tt.want)
		}
		if got := g.Status().Counts.Refused; got[tt.why.String()] != uint64(len(tt.times)) || len(got) != guard.NumReasons-1 {
			t.Errorf("%s: counted %v", name, got)
		}
	}
}

// TestStrangersDoNotHideAPeer has more hosts seen than are remembered, before one that is known.
func TestStrangersDoNotHideAPeer(t *testing.T) {
	g, problems := foreigners(t)
	begin := time.Now()
	for _, now := range []time.Time{begin, begin.Add(sureAfter)} {
		for i := range 1000 {
			g.screen.refuse(guard.Key, netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), true, now)
		}
		g.screen.refuse(guard.Key, netip.MustParseAddr("10.0.0.1"), false, now)
	}
	got := problems(begin.Add(sureAfter))
	if len(got) != maxSightings+1 || !slices.Contains(got, "foreign-key 10.0.0.1") {
		t.Errorf("%d problems, want %d with that of the known host: %v", len(got), maxSightings+1, got)
	}
}

// TestFloodInAPeersName sends so much in vain that no more of it is tried, and then what a peer has sent, from an address that
// is known and from one that is not.
func TestFloodInAPeersName(t *testing.T) {
	g, _ := foreigners(t)
	good, bad := sealedPacket(t, g, bytes.Repeat([]byte{1}, 32)), sealedPacket(t, g, bytes.Repeat([]byte{2}, 32))
	if err := g.screen.use([][]byte{bytes.Repeat([]byte{1}, 32)}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for addr, want := range map[string]bool{"10.0.0.1": true, "10.0.0.9": false} {
		from := netip.MustParseAddr(addr)
		for range 10_000 {
			if _, ok := g.screen.packet(bad, from, now, nil); ok {
				t.Fatal("what no key opens has passed")
			}
		}
		if _, ok := g.screen.packet(good, from, now, nil); ok != want {
			t.Errorf("after a flood of %s a packet passes: %v, want %v", addr, ok, want)
		}
		if _, ok := g.screen.packet(good, from, now.Add(time.Minute), nil); !ok {
			t.Errorf("a minute after a flood of %s nothing passes", addr)
		}
	}
	counts := g.Status().Counts.Refused
	if counts["budget"] == 0 || counts["key"] < 10_000 || counts["key"]+counts["budget"] != 20_001 {
		t.Errorf("counted %v", counts)
	}
}

// recorder is a transport that keeps what is written to it.
type recorder struct {
	memberlist.Transport
	packets chan []byte
}

func (r recorder) WriteTo(b []byte, _ string) (time.Time, error) {
	select {
	case r.packets <- bytes.Clone(b):
	default:
	}
	return time.Now(), nil
}

// sealedPacket returns a packet that a memberlist with a key has sent, and the label of a gossip.
func sealedPacket(t testing.TB, g *Gossip, key []byte) []byte {
	t.Helper()
	t.Helper()
	inner, err := memnet.New().Listen(netip.MustParseAddrPort("10.0.0.5:7950"))
	if err != nil {
		t.Fatal(err)
	}
	r := recorder{inner, make(chan []byte, 1)}
	cfg := memberlist.DefaultLANConfig()
	cfg.Name, cfg.Label, cfg.SecretKey, cfg.Transport, cfg.LogOutput = "sender", g.cfg.Label, key, r, io.Discard
	list, err := memberlist.Create(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = list.Shutdown() }()
	if err := list.SendBestEffort(&memberlist.Node{Name: "other", Addr: net.IP{10, 0, 0, 6}, Port: 7950}, []byte("something")); err != nil {
		t.Fatal(err)
	}
	return <-r.packets
}

// TestPacketsOfAnyMemberlist holds what is built of a packet against the memberlist that is built in.
func TestPacketsOfAnyMemberlist(t *testing.T) {
	g, _ := foreigners(t)
	key := bytes.Repeat([]byte{1}, 32)
	b := sealedPacket(t, g, key)
	if err := g.screen.use([][]byte{key}); err != nil {
		t.Fatal(err)
	}
	scratch, ok := g.screen.packet(b, netip.MustParseAddr("10.0.0.9"), time.Now(), nil)
	if !ok {
		t.Fatalf("refused: %v", g.Status().Counts.Refused)
	}
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { scratch, _ = g.screen.packet(b, netip.Addr{}, now, scratch) }); n > 0 {
		t.Errorf("a packet takes memory %.0f times", n)
	}
}

// onWire returns a transport on a network in memory that has such keys, and the other end of a stream to it.
func onWire(t *testing.T, keys ...[]byte) (*Gossip, *transport, net.Conn) {
	t.Helper()
	network := memnet.New()
	here, there := netip.MustParseAddrPort("10.0.0.5:7950"), netip.MustParseAddrPort("10.0.0.9:7950")
	inner, err := network.Listen(here)
	if err != nil {
		t.Fatal(err)
	}
	other, err := network.Listen(there)
	if err != nil {
		t.Fatal(err)
	}
	g, _ := foreigners(t)
	if err := g.screen.use(keys); err != nil {
		t.Fatal(err)
	}
	tr := newTransport(inner, here, false, g.screen)
	t.Cleanup(func() { _ = tr.Shutdown() })
	conn, err := other.DialTimeout(here.String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(conn) })
	return g, tr, conn
}

// TestSlowStrangers has strangers that say nothing, or half of what a message begins with, or all of it and not the rest:
// all are closed without an answer, in time.
func TestSlowStrangers(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	for name, tt := range map[string]struct {
		said []byte
		want time.Duration
	}{
		"nothing":      {nil, strangerTime},
		"half a head":  {head("test", 100)[:9], strangerTime},
		"a head":       {head("test", 100), streamTime},
		"no peer":      {[]byte("GET"), 0},
		"too long":     {head("test", maxStranger), 0},
		"other label":  {head("best", 100), 0},
		"no encrypted": {[]byte("\xf4\x04test\x06"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				g, _, conn := onWire(t, key)
				begun := time.Now()
				if _, err := conn.Write(tt.said); err != nil && !errors.Is(err, io.ErrClosedPipe) {
					t.Fatal(err)
				}
				got, err := io.ReadAll(conn)
				if len(got) > 0 || err != nil {
					t.Errorf("answered %q, %v", got, err)
				}
				if took := time.Since(begun); took != tt.want {
					t.Errorf("closed after %v, want %v", took, tt.want)
				}
				synctest.Wait() // it is counted once the connection is closed
				total := uint64(0)
				for _, n := range g.Status().Counts.Refused {
					total += n
				}
				if total != 1 {
					t.Errorf("counted %v", g.Status().Counts.Refused)
				}
			})
		})
	}
}

// head returns what a message begins with that has so many bytes behind its length.
func head(label string, size uint32) []byte {
	b := append([]byte{244, byte(len(label))}, label...)
	return append(binary.BigEndian.AppendUint32(append(b, 10), size), 1)
}

// TestKeysThatComeMeanwhile gives a peer a key while a stream is open that began without: what it is not
// encrypted is neither read on nor answered.
func TestKeysThatComeMeanwhile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g, tr, conn := onWire(t)
		if _, err := conn.Write([]byte("\xf4\x04test\x06")); err != nil {
			t.Fatal(err)
		}
		in := <-tr.StreamCh()
		defer drop(in)
		if err := g.screen.use([][]byte{bytes.Repeat([]byte{1}, 32)}); err != nil {
			t.Fatal(err)
		}
		if n, err := in.Write([]byte("answer")); n > 0 || !errors.Is(err, errStranger) {
			t.Errorf("it is answered: %d bytes, %v", n, err)
		}
		all, err := io.ReadAll(in)
		if string(all) != "\xf4\x04test\x06" || !errors.Is(err, errStranger) {
			t.Errorf("%q is read, and then %v", all, err)
		}
	})
}

// TestNoReflector sends without keys to addresses that are known alone.
func TestNoReflector(t *testing.T) {
	network := memnet.New()
	var ends []*memnet.Node
	for _, a := range []string{"10.0.0.5:7950", "10.0.0.1:7950", "10.0.0.9:7950"} {
		n, err := network.Listen(netip.MustParseAddrPort(a))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, n)
	}
	g, _ := foreigners(t)
	tr := newTransport(ends[0], netip.MustParseAddrPort("10.0.0.5:7950"), false, g.screen)
	defer func() { _ = tr.Shutdown() }()
	for _, a := range []string{"10.0.0.1:7950", "10.0.0.9:7950"} {
		if _, err := tr.WriteTo([]byte("packet"), a); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-ends[1].PacketCh():
	default:
		t.Error("nothing was sent to an address that is known")
	}
	select {
	case <-ends[2].PacketCh():
		t.Error("something was sent to one that is not")
	default:
	}
	if got := g.Status().Counts.Refused["target"]; got != 1 {
		t.Errorf("%d packets are counted, want 1", got)
	}
}

// BenchmarkPacket checks one packet: of a peer, and of strangers of each kind, many of which come at once.
func BenchmarkPacket(b *testing.B) {
	for _, name := range []string{"peer", "label", "version", "key"} {
		b.Run(name, func(b *testing.B) {
			cfg := goodConfig()
			cfg.Label = "test"
			g, err := New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			key := bytes.Repeat([]byte{1}, 32)
			packet := sealedPacket(b, g, key)
			if err := g.screen.use([][]byte{key}); err != nil {
				b.Fatal(err)
			}
			switch name {
			case "label":
				packet[2]++
			case "version":
				packet[6] = 0
			case "key":
				packet[len(packet)-1]++
			}
			scratch, from := make([]byte, 2000), netip.MustParseAddr("10.0.0.9")
			b.ReportAllocs()
			for b.Loop() {
				scratch, _ = g.screen.packet(packet, from, time.Now(), scratch)
			}
		})
	}
}
