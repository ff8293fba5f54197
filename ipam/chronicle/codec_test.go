package chronicle_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
)

// actions is one of each, for codecs.
func actions() []chronicle.Action {
	k := chronicle.PoolKey{Slot: 300, Place: 2}
	f := chronicle.Founder{ID: b, Name: "host-b", Boot: 9, Machine: 1 << 60}
	res := chronicle.Reservation{Range: span(3, 400), Kind: chronicle.KindExcluded, Note: "the printer"}
	return []chronicle.Action{
		chronicle.Found{Cluster: [16]byte{5}, Peers: []chronicle.Founder{f, {ID: c}}},
		chronicle.CreatePool{CIDR: netip.MustParsePrefix("fd00::/127"), Origin: chronicle.FromChoice, Deal: chronicle.DealNone, Reserved: []chronicle.Reservation{res}},
		chronicle.DeletePool{Pool: k},
		chronicle.Open{Pool: k, Range: span(1, 1<<63), Size: 1024},
		chronicle.Close{Pool: k, Range: span(1, 2)},
		chronicle.Give{Pool: k, Range: span(1, 2), To: c},
		chronicle.Reserve{Pool: k, Reservation: res},
		chronicle.Unreserve{Pool: k, Range: span(1, 2), Kind: chronicle.KindGateway},
		chronicle.Admit{Founder: f, Speaks: 3},
		chronicle.SetState{Peer: a, Phase: chronicle.Draining},
		chronicle.Evict{Peer: a},
		chronicle.Retire{Peer: b},
		chronicle.Forget{Peer: c, Evicted: 77},
		chronicle.Inherit{Former: a},
		chronicle.NamePool{Name: "lab", Pool: k},
		chronicle.Use{Pool: k},
		chronicle.Unuse{Pool: k},
		chronicle.Borrow{Pool: k, At: 1 << 40},
		chronicle.Raise{Level: 1 << 20},
		chronicle.Identify{Labels: "com.docker.compose.project=shop;com.docker.compose.service=web"},
		chronicle.Collect{Numbers: []uint64{256, 1 << 40}},
		chronicle.Lock{Want: lock.Want{Name: "backup", Holder: "nas: restic", Token: 1 << 60, Since: 1_700_000_000}},
		chronicle.Unlock{Name: "backup", Fence: 300},
		chronicle.Expire{Name: "backup", Fence: 1 << 40},
		chronicle.SetZone{Zone: "rack-1"},
		chronicle.DeletePool{Pool: k, Kept: 1 << 63},
		chronicle.SetState{Peer: a, Phase: chronicle.Draining, Also: true},
		chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Deal: chronicle.DealHalf, Reserved: []chronicle.Reservation{}, Away: []peer.ID{b, c}},
	}
}

func TestBatchCodec(t *testing.T) {
	var batch []chronicle.Command
	for i, action := range actions() {
		batch = append(batch, chronicle.Command{Author: a, Number: uint64(i) * 1000, Action: action})
	}
	enc := chronicle.EncodeBatch(batch)
	got, err := chronicle.DecodeBatch(enc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(batch, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for n := range enc {
		if _, err := chronicle.DecodeBatch(enc[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a batch", n, len(enc))
		}
	}
	if _, err := chronicle.DecodeBatch(append(enc, 0)); err == nil {
		t.Error("a byte too many is accepted")
	}
}

// The bytes of slots and snapshots lie on disks: they never change.
func TestEncodingIsFrozen(t *testing.T) {
	s := &chronicle.State{}
	for i, action := range actions()[:17] { // what is added later stands behind
		s.Apply([]chronicle.Command{{Author: b, Number: uint64(i + 1), Action: action}})
	}
	if got, want := fmt.Sprintf("%x", chronicle.EncodeBatch([]chronicle.Command{{Author: a, Number: 300, Action: actions()[6]}})), "010a000000000000000000000000000000ac020713ac0202038d03060b746865207072696e746572"; got != want {
		t.Errorf("batch is %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%x", chronicle.EncodeBatch([]chronicle.Command{{Author: a, Number: 300, Action: actions()[17]}})), "010a000000000000000000000000000000ac021209ac0202808080808020"; got != want {
		t.Errorf("batch is %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%x", table.Hash(s.Slot, 0, s.Encode())), "a525ff6888dae3bf"; got != want {
		t.Errorf("hash of the state's bytes is %s, want %s", got, want)
	}
	// The digest travels: peers of two releases must agree on it.
	if got, want := fmt.Sprintf("%x", s.Digest()), "2dfd0cda1932b089"; got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
}

// What contradicts itself is not taken in from outside.
func TestDecodeStateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(s *chronicle.State){
		"pools that overlap":   func(s *chronicle.State) { s.Pools[2].CIDR = netip.MustParsePrefix("10.0.0.128/26") },
		"a pool twice":         func(s *chronicle.State) { s.Pools[1].CIDR = s.Pools[2].CIDR },
		"pools out of order":   func(s *chronicle.State) { s.Pools[0], s.Pools[1] = s.Pools[1], s.Pools[0] },
		"a ring of other size": func(s *chronicle.State) { s.Pools[0].CIDR = netip.MustParsePrefix("10.1.0.0/28") },
		"an unknown owner":     func(s *chronicle.State) { s.Pools[1].Ring.Assign(addr.One(9), peer.ID{9}, 9) },
		"one like a known one": func(s *chronicle.State) { s.Pools[1].Ring.Assign(addr.One(9), peer.ID{0xa, 15: 1}, 9) },
		"reserved by nobody":   func(s *chronicle.State) { s.Pools[1].Ring.Assign(addr.One(9), ring.Reserved, 9) },
		"reserved, and a range": func(s *chronicle.State) {
			s.Pools[0].Reserved = []chronicle.Reservation{{Range: addr.One(3), Kind: chronicle.KindExcluded}}
		},
		"an unknown user": func(s *chronicle.State) { s.Pools[0].Users = []peer.ID{{9}} },
		"a peer twice":    func(s *chronicle.State) { s.Roster[1] = s.Roster[0] },
	} {
		w := found(t, a, b)
		for _, cidr := range []string{"10.0.0.0/24", "10.9.0.0/26", "10.3.0.0/26"} {
			w.pool(a, cidr, chronicle.DealAll)
		}
		spoil(w.s)
		if _, err := chronicle.DecodeState(w.s.Encode()); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A state from outside with a reservation beyond its pool is refused; nobody
// looks up who has borrowed that.
func TestReservationBeyondThePool(t *testing.T) {
	w := found(t, a)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	w.ok(a, chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(240), Kind: chronicle.KindKeptForName, Note: "db"}})
	for _, o := range []addr.Offset{256, 496, 1 << 40} {
		w.s.Pool(k).Reserved[0].Range = addr.One(o)
		if _, err := chronicle.DecodeState(w.s.Encode()); err == nil {
			t.Errorf("a state with offset %d of 256 reserved is taken in", o)
		}
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for _, action := range actions() {
		f.Add(chronicle.EncodeBatch([]chronicle.Command{{Author: a, Number: 1, Action: action}}))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		batch, err := chronicle.DecodeBatch(in)
		if err != nil {
			return
		}
		if out := chronicle.EncodeBatch(batch); !bytes.Equal(in, out) {
			t.Errorf("%x decodes, and is encoded as %x", in, out)
		}
		s := &chronicle.State{}
		s.Apply([]chronicle.Command{{Author: a, Number: 1, Action: actions()[0]}})
		s.Apply(batch)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	s := &chronicle.State{}
	f.Add(s.Encode())
	for i, action := range actions() {
		s.Apply([]chronicle.Command{{Author: b, Number: uint64(i + 1), Action: action}})
		f.Add(s.Encode())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := chronicle.DecodeState(in)
		if err != nil {
			return
		}
		if out := s.Encode(); !bytes.Equal(in, out) {
			t.Errorf("%x decodes, and is encoded as %x", in, out)
		}
		s.Digest()
		if err := s.Check(); err != nil {
			t.Errorf("%x decodes, and is no state: %v", in, err)
		}
	})
}
