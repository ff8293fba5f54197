package peer_test

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

func TestZone(t *testing.T) {
	for zone, want := range map[string]string{
		"": "", "rack-1": "", "größe/2": "", "a\u00a0b": "",
		strings.Repeat("z", peer.MaxZone):   "",
		strings.Repeat("z", peer.MaxZone+1): "it has 65 bytes",
		"two racks":                         `it contains ' '`,
		"a,b":                               `it contains ','`,
		"a\tb":                              `it contains '\t'`,
		"a\x7f":                             `it contains '\x7f'`,
		"a\xff":                             "it is not UTF-8",
	} {
		got := ""
		if err := peer.Zone(zone).Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", zone, got, want)
		}
	}
}
