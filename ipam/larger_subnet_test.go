package ipam_test

import (
	"testing"
)

// A database is lost under a network with a container, and before the engine lists anything it asks for a network with a larger
// subnet. Then the list has both. The first one has no pool: its container's address goes to nobody all the same.
func TestContainerOfANetworkWithoutAPool(t *testing.T) {
	const cidr, larger, at = "10.60.0.0/24", "10.60.0.0/16", "10.60.0.5"
	h := withSocket(t)
	n := network(t, h, larger)
	look(h, on(cidr, listed(at, "web", 7)), on(larger))
	q := asking(n, "db", 8, at)
	if r, answered := h.Try(q); answered && r.Err == nil {
		t.Errorf("%s is a container's, as the engine lists, and was handed out", at)
	}
	for range 10 {
		if a := run(t, h, n, ""); a == address(at) {
			t.Errorf("%s is a container's, as the engine lists, and was handed out", at)
		}
	}
}
