package parse

import (
	"testing"
)

func TestMAC(t *testing.T) {
	for text, want := range map[string][6]byte{
		"02:42:0a:00:00:01": {2, 0x42, 0x0a, 0, 0, 1}, "0242.0a00.0001": {2, 0x42, 0x0a, 0, 0, 1},
		"": {}, "web": {}, "02:42:0a:00:00:01:02:03": {},
	} {
		if got := MAC(text); got != want {
			t.Errorf("%q: %x", text, got)
		}
	}
}
