package cli

import (
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// What is held is marked as long as a host with a part of the pool has not reported.
func TestHeldOfSilentHosts(t *testing.T) {
	self, silent, nothing := ipam.ShareStatus{Owned: 31, Held: 2, Announced: true}, ipam.ShareStatus{Owned: 32}, ipam.ShareStatus{}
	for want, shares := range map[string][]ipam.ShareStatus{"2": {self, nothing}, "~2": {self, silent}} {
		if got := heldText(ipam.PoolStatus{Held: 2, Shares: shares}); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
