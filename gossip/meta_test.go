package gossip

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

func TestMeta(t *testing.T) {
	want := meta{id: peer.ID{1, 2}, boot: 3, nonce: 4, name: "höst-a"}
	b, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeMeta(append(b, "of a later release"...)); err != nil || got != want {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
	longest := meta{id: want.id, boot: 1, name: peer.Name(strings.Repeat("a", peer.MaxName))}
	if b, err := longest.encode(); err != nil || len(b) > memberlist.MetaMaxSize {
		t.Errorf("the longest name gives %d bytes and %v", len(b), err)
	}
	longest.name += "a"
	if _, err := longest.encode(); err == nil {
		t.Error("a name that is too long is no error")
	}
}

func TestMetaRefused(t *testing.T) {
	good, err := meta{id: peer.ID{1}, boot: 1, name: "a"}.encode()
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, b := range map[string][]byte{
		"nothing":       nil,
		"cut":           good[:len(good)-1],
		"no name":       good[:metaFixed-1],
		"other version": change(func(b []byte) []byte { b[0] = 2; return b }),
		"nobody":        change(func(b []byte) []byte { b[1] = 0; return b }),
		"boot 0":        change(func(b []byte) []byte { b[24] = 0; return b }),
	} {
		if m, err := decodeMeta(b); err == nil {
			t.Errorf("%s is read as %+v", name, m)
		}
	}
	for _, name := range []peer.Name{"two words", "line\n", "\x1b[31m", "\xff"} {
		b, err := meta{id: peer.ID{1}, boot: 1, name: name}.encode()
		if err != nil {
			t.Fatal(err)
		}
		if m, err := decodeMeta(b); err != nil || m.name != "" {
			t.Errorf("the name %q is read as %q, %v; want none", name, m.name, err)
		}
	}
}

// FuzzMeta reads hostile bytes; what is read is written as it was, up to a
// name that is not shown and to what a later release appends.
func FuzzMeta(f *testing.F) {
	for _, m := range []meta{{id: peer.ID{1}, boot: 1}, {id: peer.ID{15: 9}, boot: 1 << 60, nonce: 1 << 63, name: "host-a"}} {
		b, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if m.name == "" {
			again = again[:metaFixed-1]
		}
		if !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v and written as %x", b, m, again)
		}
	})
}

func TestMemberName(t *testing.T) {
	for _, id := range []peer.ID{{1}, {15: 1}, {0xff, 0xee, 15: 0xdd}} {
		name := memberName(id)
		if got, ok := parseName(name); !ok || got != id || len(name) != 26 {
			t.Errorf("%v has the name %q of %d characters, which is read as %v", id, name, len(name), got)
		}
	}
	name := memberName(peer.ID{1})
	for _, bad := range []string{
		"", "host-a", strings.ToLower(name), name + "A", name[:25], name[:25] + "B", name + "======", memberName(peer.None),
	} {
		if id, ok := parseName(bad); ok {
			t.Errorf("%q is read as %v", bad, id)
		}
	}
}

// TestFrames holds what is known here of frames against the package that makes
// them.
func TestFrames(t *testing.T) {
	from := peer.ID{0xaa, 15: 0xbb}
	b := wire.Encode(nil, &wire.Frame{Header: wire.Header{Cluster: [16]byte{7}, From: from, Boot: 1 << 40, Slot: 3}, Body: wire.Beat{}})
	if got := sender(b); got != from {
		t.Errorf("the sender is read as %v, want %v", got, from)
	}
	if MaxFrame != wire.MaxFrame || frameVersion != wire.Version {
		t.Errorf("frames have version %d and %d bytes at most here, %d and %d there", frameVersion, MaxFrame, wire.Version, wire.MaxFrame)
	}
	if len(b) > maxHeartbeatBytes || len(b) > MaxBroadcast {
		t.Errorf("a heartbeat has %d bytes", len(b))
	}
	b[0]++
	for _, frame := range [][]byte{b, b[:senderAt+15], nil} {
		if got := sender(frame); got != peer.None {
			t.Errorf("the sender of %x is read as %v", frame, got)
		}
	}
}
