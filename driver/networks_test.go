package driver

import (
	"fmt"
	"sync"
	"testing"
)

// TestNetworksKnown asks for more networks than are known at a time, several at once.
func TestNetworksKnown(t *testing.T) {
	var known networks
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2*maxNetworks + 3 {
				id := fmt.Sprintf("ringlet1/local/10.%d.%d.0/24", i>>8, i&255)
				for range 2 {
					n, err := known.network(id)
					if err != nil || string(n.ID()) != id {
						t.Errorf("%s is %v, %v", id, n, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(known.known); n > maxNetworks {
		t.Errorf("%d are known, more than %d", n, maxNetworks)
	}
	_, err := known.network("10.1.0.0/16")
	_, again := known.network("10.1.0.0/16")
	if err == nil || again == nil {
		t.Errorf("got %v, and %v", err, again)
	}
}
