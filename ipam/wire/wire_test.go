package wire_test

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

var (
	header = wire.Header{Cluster: [16]byte{1}, From: peer.ID{2}, To: peer.ID{3}, Boot: 3, Nonce: 4, Slot: 500, Digest: 6}
	ballot = paxos.Ballot{Round: 7, Boot: 8, Peer: peer.ID{9}}
	form   = wire.Formation{Size: 3, List: 77}
	pool   = chronicle.PoolKey{Slot: 300, Place: 2}
)

// bodies has one body of each type, with no field at its zero value.
var bodies = []wire.Body{
	wire.Hello{Name: "a", Machine: 1, Formation: form, Observer: true, Listing: wire.Unlisted, Spoken: 2, Question: 5},
	wire.Welcome{Hello: wire.Hello{Name: "b", Machine: 2, Formation: form, Observer: true, Listing: wire.Unlisted, Spoken: 1, Question: 5}, Undecided: true, Boot: 3, Nonce: 4},
	wire.Copied{Boot: 1, Nonce: 2, KnownBoot: 3, KnownNonce: 4},
	wire.Twin{Boot: 5, Nonce: 6, OtherBoot: 7, OtherNonce: 8},
	wire.Prepare{Slot: 1, Formation: form, Ballot: ballot},
	wire.Promise{Slot: 2, Promise: paxos.Promise{Ballot: ballot, Accepted: ballot, Value: []byte("v")}},
	wire.Accept{Slot: 3, Formation: form, Accept: paxos.Accept{Ballot: ballot, Value: []byte("w")}},
	wire.Accepted{Slot: 4, Accepted: paxos.Accepted{Ballot: ballot}},
	wire.Refusal{Slot: 5, Refusal: paxos.Refusal{Ballot: ballot, Promised: ballot}},
	wire.Pull{After: 6},
	wire.Decided{First: 7, Values: [][]byte{[]byte("x"), []byte("yy")}},
	wire.Snapshot{State: []byte("state")},
	wire.Submit{Batch: []byte("batch")},
	wire.Join{Name: "c", Machine: 8},
	wire.Beat{},
	wire.Ask{ID: 9, Want: wire.WantReserved, Pool: pool, Range: addr.Range{Start: 10, End: 20}, Kind: chronicle.KindGateway},
	wire.Answer{ID: 9, Verdict: wire.RefusedHeld, Range: addr.One(11), Free: 12, Text: "web on host-b"},
	wire.Inquire{ID: 14, Peer: peer.ID{15}},
	wire.Report{ID: 16, Peer: peer.ID{17}, Heard: true},
	wire.Announce{Pools: []wire.Spare{{Pool: pool, Free: 13, Resting: 5}}},
	wire.InUse{Addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::1")}, All: true},
	wire.UsedUp{},
	wire.Directory{Message: []byte("of the directory")},
}

// TestRoundTrip encodes each body and reads it back.
func TestRoundTrip(t *testing.T) {
	seen := map[wire.Type]bool{}
	for _, body := range bodies {
		want := &wire.Frame{Header: header, Body: body}
		b := wire.Encode(nil, want)
		if got := wire.TypeOf(b); got != body.Type() {
			t.Errorf("%T: its frame is taken for one of type %d", body, got)
		}
		got, err := wire.Decode(b)
		if err != nil {
			t.Errorf("%T: %v", body, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%T: got %+v, want %+v", body, got, want)
		}
		if seen[body.Type()] {
			t.Errorf("%T: its type %d is another's", body, body.Type())
		}
		seen[body.Type()] = true
	}
	if len(seen) != 23 {
		t.Errorf("%d types were tried, there are 23", len(seen))
	}
}

// TestStanding reads each standing of a sender as it was written, and refuses
// one of which no release knows anything.
func TestStanding(t *testing.T) {
	for standing := range byte(8) {
		want := wire.Hello{Name: "a", Observer: standing&1 != 0, Listing: wire.Listing(standing / 2), Spoken: 1}
		b := wire.Encode(nil, &wire.Frame{Header: header, Body: want})
		at := len(b) - 3 // the level and the question are behind it
		if b[at] != standing {
			t.Errorf("standing %d is written as %d", standing, b[at])
		}
		switch f, err := wire.Decode(b); {
		case standing > 5 && !errors.Is(err, codec.ErrCorrupt):
			t.Errorf("standing %d: got %v, want ErrCorrupt", standing, err)
		case standing <= 5 && (err != nil || f.Body != want):
			t.Errorf("standing %d: got %+v, %v", standing, f, err)
		}
	}
}

// TestFirstByte holds the bytes that every release must read alike.
func TestFirstByte(t *testing.T) {
	b := wire.Encode(nil, &wire.Frame{Header: header, Body: wire.Beat{}})
	if b[0] != 1 || b[1] != 14 {
		t.Errorf("a beat begins with %d %d, want 1 14", b[0], b[1])
	}
}

// TestRefused gives frames that no peer of this release writes.
func TestRefused(t *testing.T) {
	good := wire.Encode(nil, &wire.Frame{Header: header, Body: wire.Pull{After: 1}})
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	nobody, noBoot := header, header
	nobody.From, noBoot.Boot = peer.None, 0
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":       {nil, codec.ErrCorrupt},
		"later version": {change(func(b []byte) []byte { b[0] = 2; return b }), wire.ErrUnknown},
		"unknown type":  {change(func(b []byte) []byte { b[1] = 200; return b }), wire.ErrUnknown},
		"cut":           {good[:len(good)-1], codec.ErrCorrupt},
		"more":          {append(bytes.Clone(good), 0), codec.ErrCorrupt},
		"too long":      {append(bytes.Clone(good), make([]byte, 8192)...), wire.ErrTooLong},
		"from nobody":   {wire.Encode(nil, &wire.Frame{Header: nobody, Body: wire.Beat{}}), codec.ErrCorrupt},
		"boot 0":        {wire.Encode(nil, &wire.Frame{Header: noBoot, Body: wire.Beat{}}), codec.ErrCorrupt},
	} {
		if _, err := wire.Decode(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// FuzzDecode reads hostile bytes; what is read is written as it was.
func FuzzDecode(f *testing.F) {
	for _, body := range bodies {
		f.Add(wire.Encode(nil, &wire.Frame{Header: header, Body: body}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := wire.Decode(b)
		if err != nil {
			return
		}
		if again := wire.Encode(nil, frame); !bytes.Equal(again, b) {
			t.Errorf("%x is read as %+v and written as %x", b, frame, again)
		}
	})
}
