package chronicle_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// divided returns a state of a hundred peers whose first pool is divided into
// so many tokens, beside so many others.
func divided(tb testing.TB, tokens, pools int) *chronicle.State {
	tb.Helper()
	s := &chronicle.State{}
	number := uint64(0)
	do := func(author peer.ID, action chronicle.Action) {
		tb.Helper()
		number++
		if out := s.Apply([]chronicle.Command{{Author: author, Number: number, Action: action}}); out[0].Refused != "" {
			tb.Fatalf("%v: %s", action, out[0].Refused)
		}
	}
	found := chronicle.Found{Cluster: [16]byte{1}}
	for i := range 100 {
		found.Peers = append(found.Peers, chronicle.Founder{ID: numbered(i), Name: peer.Name(fmt.Sprintf("host-%d", i))})
	}
	do(numbered(0), found)
	do(numbered(0), chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Deal: chronicle.DealNone})
	key := s.Pools[0].Key
	for i := range tokens / 2 {
		at := addr.Offset(i) * 64
		do(numbered(i%100), chronicle.Open{Pool: key, Range: span(at, at+32), Size: 32})
	}
	for i := range pools {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16 + byte(i>>8), byte(i), 0}), 24)
		do(numbered(0), chronicle.CreatePool{CIDR: cidr, Deal: chronicle.DealHalf})
	}
	return s
}

// numbered returns the ID of a peer.
func numbered(n int) (id peer.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(n+1)*0x9e3779b97f4a7c15)
	return id
}

// BenchmarkSlotAndDigest asks what a slot costs with the digest that follows
// it. Accepted (P10, P12): 10 µs, and 1.2 times at ten times the tokens.
func BenchmarkSlotAndDigest(b *testing.B) {
	for _, size := range []struct{ tokens, pools int }{{1_000, 0}, {10_000, 0}, {1_000, 1_000}} {
		b.Run(fmt.Sprintf("tokens=%d/pools=%d", size.tokens, size.pools), func(b *testing.B) {
			s := divided(b, size.tokens, size.pools)
			s.Digest()
			number := uint64(1 << 32)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				at := addr.Offset(i%(size.tokens/2))*64 + 8
				from, to := numbered(i%(size.tokens/2)%100), numbered((i+1)%100)
				if number++; number%2 == 0 {
					from, to = to, from
					i += 7919
				}
				s.Apply([]chronicle.Command{{Author: from, Number: number, Action: chronicle.Give{Pool: s.Pools[0].Key, Range: span(at, at+1), To: to}}})
				s.Digest()
			}
		})
	}
}

// BenchmarkDecodeState asks what it costs to take in a whole state and to check
// it. Accepted (G21): 12 times a merge of two sorted lists of as many tokens.
func BenchmarkDecodeState(b *testing.B) {
	for _, tokens := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			enc := divided(b, tokens, 0).Encode()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chronicle.DecodeState(enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstDigest asks what decoding costs with the first digest of a state costs, which nothing is
// known of yet.
func BenchmarkFirstDigest(b *testing.B) {
	enc := divided(b, 10_000, 0).Encode()
	for b.Loop() {
		s, err := chronicle.DecodeState(enc)
		if err != nil {
			b.Fatal(err)
		}
		s.Digest()
	}
}
