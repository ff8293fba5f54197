package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam/codec"
)

func TestRoundTrip(t *testing.T) {
	prefixes := []netip.Prefix{
		{},
		netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("10.0.0.0/32"), netip.MustParsePrefix("fd00::/64"),
		netip.MustParsePrefix("fd00::/127"), netip.MustParsePrefix("fd00::1/128"), netip.MustParsePrefix("::/0"),
	}
	numbers := []uint64{0, 1, 127, 128, 1 << 40, math.MaxUint64}
	var b []byte
	for _, n := range numbers {
		b = codec.Uint(b, n)
	}
	for _, p := range prefixes {
		b = codec.Prefix(b, p)
	}
	b = codec.Bool(codec.Bool(codec.Bytes(b, "text"), true), false)
	r := codec.NewReader(b)
	for _, want := range numbers {
		if got := r.Uint("n"); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	for _, want := range prefixes {
		if got := r.Prefix("p"); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if s := string(r.Bytes("s", 4)); s != "text" || !r.Bool("b") || r.Bool("b") {
		t.Errorf("got %q and the wrong truths", s)
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	for name, read := range map[string]struct {
		in   []byte
		read func(*codec.Reader)
	}{
		"no number":        {nil, func(r *codec.Reader) { r.Uint("x") }},
		"long form of 0":   {[]byte{0x80, 0}, func(r *codec.Reader) { r.Uint("x") }},
		"more than 64 bit": {bytes.Repeat([]byte{0xff}, 11), func(r *codec.Reader) { r.Uint("x") }},
		"too many items":   {[]byte{3, 1, 1, 1, 1, 1}, func(r *codec.Reader) { r.Count("x", 2) }},
		"bytes cut short":  {[]byte{3, 1, 1}, func(r *codec.Reader) { r.Bytes("x", 9) }},
		"over the limit":   {[]byte{3, 1, 1, 1}, func(r *codec.Reader) { r.Bytes("x", 2) }},
		"half true":        {[]byte{2}, func(r *codec.Reader) { r.Bool("x") }},
		"host bits":        {[]byte{4, 24, 10, 0, 0, 1}, func(r *codec.Reader) { r.Prefix("x") }},
		"bits":             {[]byte{4, 33, 10, 0, 0, 0}, func(r *codec.Reader) { r.Prefix("x") }},
		"family":           {[]byte{5, 24, 10, 0, 0, 0}, func(r *codec.Reader) { r.Prefix("x") }},
		"trailing":         {[]byte{1, 1}, func(r *codec.Reader) { r.Byte("x") }},
	} {
		r := codec.NewReader(read.in)
		read.read(r)
		if err := r.Done(); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After the first error everything is zero, and the first error stays.
func TestFirstErrorStays(t *testing.T) {
	r := codec.NewReader([]byte{2, 7, 7})
	r.Bool("truth")
	if r.Uint("n") != 0 || r.ID("id") != [16]byte{} || r.Bytes("b", 9) != nil || r.Prefix("p").IsValid() {
		t.Error("something was read behind an error")
	}
	if err := r.Done(); err == nil || err.Error() != "corrupt encoding: truth" {
		t.Errorf("got %v", err)
	}
}

func ExampleReader() {
	r := codec.NewReader(codec.Bytes(codec.Uint(nil, 300), "lab"))
	slot, name := r.Uint("slot"), r.Bytes("name", 63)
	fmt.Println(slot, string(name), r.Done())
	// Output: 300 lab <nil>
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{0, 1, 2, 3, 4, 5, 6})
	f.Fuzz(func(t *testing.T, in, how []byte) {
		r := codec.NewReader(in)
		for _, op := range how {
			switch op % 7 {
			case 0:
				r.Uint("x")
			case 1:
				if n := r.Count("x", 3); n > len(in) {
					t.Fatalf("%d items in %d bytes", n, len(in))
				}
			case 2:
				if got := r.Bytes("x", 1<<30); len(got) > len(in) {
					t.Fatal("more bytes than there are")
				}
			case 3:
				r.Prefix("x")
			case 4:
				r.Bool("x")
			case 5:
				r.ID("x")
			case 6:
				r.Uints("x")
			}
		}
	})
}

// All numbers of up to three bytes are read as the standard library reads them,
// if they are no longer than need be.
func TestUintAgainstBinary(t *testing.T) {
	for n := range 1 << 18 {
		in := []byte{byte(n), byte(n >> 8), byte(n >> 16)}[:1+n%3]
		want, size := binary.Uvarint(in)
		r := codec.NewReader(in)
		got := r.Uint("number")
		if short := size > 0 && (size == 1 || in[size-1] != 0); short != (r.Err() == nil) {
			t.Fatalf("%x: %v", in, r.Err())
		} else if short && (got != want || r.Rest() != len(in)-size) {
			t.Fatalf("%x: %d and %d bytes left, want %d", in, got, r.Rest(), want)
		}
	}
}

// Three numbers are read together as they are one after the other, whatever stands there.
func TestUintsAgainstUint(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1 << 18 {
		in := make([]byte, rnd.IntN(10))
		for i := range in {
			in[i] = []byte{0, 1, 127, 128, 129, 255, byte(rnd.Uint32())}[rnd.IntN(7)]
		}
		one, all := codec.NewReader(in), codec.NewReader(in)
		want := [3]uint64{one.Uint("number"), one.Uint("number"), one.Uint("number")}
		var got [3]uint64
		got[0], got[1], got[2] = all.Uints("number")
		if got != want || all.Rest() != one.Rest() || (all.Err() == nil) != (one.Err() == nil) {
			t.Fatalf("%x: %d and %d bytes left, %v; want %d and %d, %v", in, got, all.Rest(), all.Err(), want, one.Rest(), one.Err())
		}
	}
}
