package driver

import (
	"sync"

	"github.com/ringlet/ringlet/ipam"
)

// networks are those that pool IDs were read to lately: an engine sends the
// same few again and again. It is safe for concurrent use.
type networks struct {
	mu    sync.RWMutex
	known map[string]ipam.Network
}

// maxNetworks is how many are known at most: some 300 KB.
const maxNetworks = 1024

// network reads a pool ID.
func (n *networks) network(id string) (ipam.Network, error) {
	n.mu.RLock()
	found, ok := n.known[id]
	n.mu.RUnlock()
	if ok {
		return found, nil
	}
	found, err := network(id)
	if err != nil {
		return found, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxNetworks {
		clear(n.known)
	}
	if n.known == nil {
		n.known = map[string]ipam.Network{}
	}
	n.known[id] = found
	return found, nil
}
