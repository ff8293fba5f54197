package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// opened opens a stream from an address of this host, on which so much is sent, and
// returns the other end.
func opened(t *testing.T, to *Sockets, from string, bytes int) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	out, err := d.DialContext(t.Context(), "tcp", to.atLoopback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(out) })
	go func() {
		for block := make([]byte, 1<<20); bytes > 0; bytes -= len(block) {
			if _, err := out.Write(block[:min(bytes, len(block))]); err != nil {
				return
			}
		}
	}()
	return <-to.StreamCh()
}

// TestStreamsOfStrangersAreBounded reads what some send who need no key for it, as
// memberlist does, and keeps it: of one address no more than the longest frame and a
// half, and of all together no more than three. What is closed counts no more.
func TestStreamsOfStrangersAreBounded(t *testing.T) {
	there := listening(t, "127.0.0.1")
	const each = 16 << 20
	for range 2 {
		var streams []net.Conn
		total := 0
		for k := range 6 {
			from := fmt.Sprint("127.0.0.", 1+k/2)
			in := opened(t, there, from, each)
			streams = append(streams, in)
			n, err := io.CopyN(io.Discard, in, each)
			total += int(n)
			if k == 0 && err != nil {
				t.Errorf("the first stream ended after %d bytes: %v", n, err)
			}
			if k%2 == 1 && (!errors.Is(err, errTooMuch) || n > maxReadingEach-each) {
				t.Errorf("the second stream of %s ended after %d bytes with %v", from, n, err)
			}
		}
		if total > maxReading || total < maxReading/2 {
			t.Errorf("%d MiB were read at once", total>>20)
		}
		for _, in := range streams {
			drop(in)
			drop(in) // counts once
		}
	}
	if there.intake.all != (reading{}) || len(there.intake.each) > 0 {
		t.Errorf("without streams %+v is counted, of %d addresses", there.intake.all, len(there.intake.each))
	}
}

// TestNoMoreStreamsThanAreBounded opens more from one address than it may have, which
// another one does not feel.
func TestNoMoreStreamsThanAreBounded(t *testing.T) {
	there := listening(t, "127.0.0.1")
	for range maxInboundEach {
		defer drop(opened(t, there, "127.0.0.1", 0))
	}
	out, err := net.Dial("tcp", there.atLoopback())
	if err != nil {
		t.Fatal(err)
	}
	defer drop(out)
	if n, err := out.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("one stream more: read %d bytes, %v", n, err)
	}
	drop(opened(t, there, "127.0.0.2", 0))
}

// logging returns a gossip that is not running, and what it logs.
func logging(t *testing.T) (*Gossip, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	cfg := goodConfig()
	cfg.Logger = slog.New(slog.NewTextHandler(out, nil))
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g, out
}

// TestForeignPeersDoNotFillTheLog hears of more hosts than are remembered.
func TestForeignPeersDoNotFillTheLog(t *testing.T) {
	g, out := logging(t)
	to := g.memberlistLogger()
	for range 100 {
		for host := range 100 {
			to.Printf("[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=10.0.1.%d:7950", host)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != maxSightings {
		t.Errorf("%d lines at once, of 100 hosts, want %d", n, maxSightings)
	}
}

// TestThreeCopiesDoNotFillTheLog has three hosts with one database.
func TestThreeCopiesDoNotFillTheLog(t *testing.T) {
	g, out := logging(t)
	for range 100 {
		for _, there := range []string{"10.0.0.2:7950", "10.0.0.3:7950"} {
			g.watch.conflict(peer.ID{1}, netip.MustParseAddrPort("10.0.0.1:7950"), netip.MustParseAddrPort(there), time.Now())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines at once, of one peer at three addresses", n)
	}
}
