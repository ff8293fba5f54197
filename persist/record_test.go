package persist

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bucket := rapid.String().Draw(rt, "bucket")
		key, value := rapid.SliceOf(rapid.Byte()).Draw(rt, "key"), rapid.SliceOf(rapid.Byte()).Draw(rt, "value")
		s := newSealer(bucket)
		stored, part := s.seal([]byte("before"), key, value)
		stored = stored[len("before"):]
		got, gotPart, err := s.open(key, stored)
		if err != nil || !bytes.Equal(got, value) || gotPart != part {
			rt.Fatalf("got %x, %x, %v, want %x, %x", got, gotPart, err, value, part)
		}
		// One changed bit in any of the three is always found by a CRC.
		flip := func(b []byte) []byte {
			b = bytes.Clone(b)
			bit := rapid.IntRange(0, len(b)*8-1).Draw(rt, "bit")
			b[bit/8] ^= 1 << (bit % 8)
			return b
		}
		if _, _, err := s.open(key, flip(stored)); err == nil {
			rt.Fatal("a changed value passed")
		}
		if len(key) > 0 {
			if _, _, err := s.open(flip(key), stored); err == nil {
				rt.Fatal("a changed key passed")
			}
		}
		if bucket != "" {
			if _, _, err := newSealer(string(flip([]byte(bucket)))).open(key, stored); err == nil {
				rt.Fatal("a value of another bucket passed")
			}
		}
	})
}

// The stored form is on disks: it must not change. The value is "CRC-32C of 00000001 62 00000001 6b 76", bitwise.
func TestRecordFormat(t *testing.T) {
	stored, _ := newSealer("b").seal(nil, []byte("k"), []byte("v"))
	sum := ^uint32(0)
	for _, b := range []byte("\x00\x00\x00\x01b\x00\x00\x00\x01kv") {
		sum ^= uint32(b)
		for range 8 {
			sum = sum>>1 ^ 0x82f63b78*(sum&1)
		}
	}
	sum = ^sum
	want := []byte{'v', byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
	if !bytes.Equal(stored, want) {
		t.Errorf("got %x, want %x", stored, want)
	}
}

func FuzzRecord(f *testing.F) {
	stored, _ := newSealer("held").seal(nil, []byte("key"), []byte("value"))
	f.Add("held", []byte("key"), stored)
	f.Add("held", []byte("key"), []byte(nil))
	f.Add("", []byte(nil), []byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, bucket string, key, stored []byte) {
		s := newSealer(bucket)
		value, part, err := s.open(key, stored)
		if err != nil {
			return
		}
		again, againPart := s.seal(nil, key, value)
		if !bytes.Equal(again, stored) || againPart != part {
			t.Errorf("got %x, want %x", again, stored)
		}
	})
}
