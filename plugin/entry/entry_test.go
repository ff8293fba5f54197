package entry

import (
	"net/netip"
	"testing"
)

// A host tells where its API is if others can reach it there.
func TestAPI(t *testing.T) {
	for served, want := range map[string]string{
		"off": "", "127.0.0.1:7951": "", "localhost:7951": "", "[::1]:7951": "",
		"0.0.0.0:7951": "10.0.0.1:7951", "[::]:7951": "10.0.0.1:7951", ":7951": "10.0.0.1:7951",
		"192.168.1.7:7951": "192.168.1.7:7951", "host-a:7951": "host-a:7951", "[fd00::7]:7951": "[fd00::7]:7951",
	} {
		if got := api(served, netip.MustParseAddr("10.0.0.1")); got != want {
			t.Errorf("%s: got %q, want %q", served, got, want)
		}
	}
}
