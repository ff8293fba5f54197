package gossip

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// listening returns open sockets on a free port of an address.
func listening(t *testing.T, addr string) *Sockets {
	t.Helper()
	bind := netip.AddrPortFrom(netip.MustParseAddr(addr), 0)
	s, err := Listen(bind, slog.New(slog.DiscardHandler))
	for tries := 1; errors.Is(err, syscall.EADDRINUSE) && tries < 20; tries++ { // somebody has the UDP port of that number
		s, err = Listen(bind, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// atLoopback returns how others reach the sockets over the loopback interface.
func (s *Sockets) atLoopback() string {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Port()).String()
}

// TestPacketsHaveMemoryOfTheirOwn sends several before the first is looked at:
// memberlist keeps what it is given.
func TestPacketsHaveMemoryOfTheirOwn(t *testing.T) {
	for _, bind := range []string{"127.0.0.1", "0.0.0.0"} {
		here, there := listening(t, "127.0.0.1"), listening(t, bind)
		var got [][]byte
		for i := range byte(5) {
			for _, b := range [][]byte{{}, bytes.Repeat([]byte{i + 1}, 100*int(i+1))} { // who says nothing is not heard
				if _, err := here.WriteTo(b, there.atLoopback()); err != nil {
					t.Fatal(err)
				}
			}
			p := <-there.PacketCh()
			got = append(got, p.Buf)
			if from := p.From.String(); from != here.atLoopback() {
				t.Errorf("on %s: a packet comes from %s, want %s", bind, from, here.atLoopback())
			}
			if p.Timestamp.IsZero() {
				t.Errorf("on %s: a packet has no time", bind)
			}
		}
		for i, b := range got {
			if want := bytes.Repeat([]byte{byte(i + 1)}, 100*(i+1)); !bytes.Equal(b, want) {
				t.Errorf("on %s: packet %d is %v", bind, i, b)
			}
			if cap(b) > 2*len(b)+64 {
				t.Errorf("on %s: a packet of %d bytes takes %d", bind, len(b), cap(b))
			}
		}
	}
}

func TestStreamsAreHandedOver(t *testing.T) {
	here, there := listening(t, "127.0.0.1"), listening(t, "127.0.0.1")
	out, err := here.DialTimeout(there.atLoopback(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("frame")); err != nil {
		t.Fatal(err)
	}
	drop(out)
	in := <-there.StreamCh()
	defer in.Close()
	if b, err := io.ReadAll(in); err != nil || string(b) != "frame" {
		t.Errorf("got %q, %v", b, err)
	}
}

// TestShutdownLeavesNothing closes sockets on which something has arrived that
// nobody takes: the port is free again, and nothing goes on.
func TestShutdownLeavesNothing(t *testing.T) {
	here, there := listening(t, "127.0.0.1"), listening(t, "127.0.0.1")
	if _, err := here.WriteTo([]byte("packet"), there.atLoopback()); err != nil {
		t.Fatal(err)
	}
	out, err := here.DialTimeout(there.atLoopback(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for range 2 {
		if err := there.Shutdown(); err != nil { // waits for all that goes on
			t.Error(err)
		}
	}
	if _, err := there.WriteTo([]byte("packet"), here.atLoopback()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end a packet is sent: %v", err)
	}
	again, err := Listen(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), there.Port()), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("the port is still taken: %v", err)
	}
	_ = again.Shutdown()
}

func TestListenSaysWhatIsTaken(t *testing.T) {
	taken := listening(t, "127.0.0.1")
	_, err := Listen(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), taken.Port()), slog.New(slog.DiscardHandler))
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want %v", err, syscall.EADDRINUSE)
	}
}

// TestFamilies holds what is said of RINGLET_BIND: 0.0.0.0 does not listen on IPv6, [::]
// does on both, by packets and by streams.
func TestFamilies(t *testing.T) {
	if six, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("this host has no IPv6: %v", err)
	} else {
		_ = six.Close()
	}
	for bind, heard := range map[string][]bool{"0.0.0.0": {true, false}, "::": {true, true}} {
		s := listening(t, bind)
		for i, from := range []string{"127.0.0.1", "::1"} {
			to := netip.AddrPortFrom(netip.MustParseAddr(from), s.Port())
			conn, err := net.DialTimeout("tcp", to.String(), 10*time.Second)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != heard[i] {
				t.Errorf("on %s: a stream to %v: %v", bind, to, err)
			}
			// A packet is refused where nobody listens, which the next one is told.
			packets, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
			if err != nil {
				t.Fatal(err)
			}
			defer packets.Close()
			_ = packets.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := packets.Write([]byte("packet")); err != nil {
				t.Fatal(err)
			}
			if !heard[i] {
				if _, err := packets.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("on %s: a packet to %v: %v", bind, to, err)
				}
				continue
			}
			if p := <-s.PacketCh(); string(p.Buf) != "packet" {
				t.Errorf("on %s: got %q", bind, p.Buf)
			}
		}
	}
}
