package arp

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

var (
	ours    = MAC{0x02, 0x42, 0x0a, 0x32, 0x00, 0x02}
	theirs  = MAC{0x0a, 0, 0, 0, 0, 0x50}
	wanted  = netip.MustParseAddr("192.168.1.50")
	another = netip.MustParseAddr("192.168.1.51")
	nobody  = netip.IPv4Unspecified()
)

// A probe is, byte by byte, what RFC 5227 says in 2.1.1.
func TestProbeOnTheWire(t *testing.T) {
	const want = "0001 0800 06 04 0001 02420a320002 00000000 000000000000 c0a80132"
	got := hex.EncodeToString(probeFor(wanted, ours).encode())
	if got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeWhatWasEncoded(t *testing.T) {
	for _, p := range []packet{
		probeFor(wanted, ours),
		{op: reply, senderMAC: theirs, sender: wanted, targetMAC: ours, target: nobody},
	} {
		b := p.encode()
		if got, ok := decode(append(b, make([]byte, 18)...)); !ok || got != p { // frames are padded to 60 bytes
			t.Errorf("%+v comes back as %+v, %v", p, got, ok)
		}
		for n := range b {
			if got, ok := decode(b[:n]); ok {
				t.Errorf("%d bytes of %+v are taken for %+v", n, p, got)
			}
		}
	}
}

func TestDecodeRefusesOthers(t *testing.T) {
	for at, value := range map[int]byte{0: 1, 1: 6, 2: 0x86, 3: 0xdd, 4: 8, 5: 16, 6: 1, 7: 3} {
		b := probeFor(wanted, ours).encode()
		b[at] = value
		if p, ok := decode(b); ok {
			t.Errorf("with byte %d set to %d taken for %+v", at, value, p)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(probeFor(wanted, ours).encode())
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := decode(b)
		if !ok {
			return
		}
		if !p.sender.Is4() || !p.target.Is4() || !bytes.Equal(p.encode(), b[:packetLen]) {
			t.Errorf("%x is taken for %+v", b, p)
		}
	})
}

func TestWhoClaimsAnAddress(t *testing.T) {
	for _, c := range []struct {
		what string
		p    packet
		want bool
	}{
		{"an answer to us", packet{reply, theirs, wanted, ours, nobody}, true},
		{"an announcement", packet{request, theirs, wanted, MAC{}, wanted}, true},
		{"a question from the address", packet{request, theirs, wanted, MAC{}, another}, true},
		{"a probe for the address", packet{request, theirs, nobody, MAC{}, wanted}, true},
		{"a question about it", packet{request, theirs, another, MAC{}, wanted}, false},
		{"an answer about another", packet{reply, theirs, another, ours, nobody}, false},
		{"a probe for another", packet{request, theirs, nobody, MAC{}, another}, false},
		{"an answer that names nobody", packet{reply, theirs, nobody, ours, wanted}, false},
	} {
		if got := c.p.claims(wanted); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
