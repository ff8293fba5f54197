package gossip_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
)

// keys is where a peer reads its keys.
type keys struct {
	mu   sync.Mutex
	keys [][]byte
	err  error
}

func (k *keys) set(err error, keys ...[]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.err = keys, err
}

func (k *keys) read() ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys, k.err
}

// key returns one of different keys.
func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// startWithKeys starts peers that read their keys each from a place of its own.
func (c *cluster) startWithKeys(n int, first ...[]byte) ([]*node, []*keys) {
	var places []*keys
	for range n {
		k := &keys{}
		k.set(nil, first...)
		places = append(places, k)
	}
	next := 0
	return c.startAll(n, func(cfg *gossip.Config) {
		cfg.Keys = places[next].read
		next++
	}), places
}

// TestRotation replaces the key of a live cluster, one peer after the other.
func TestRotation(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers, places := c.startWithKeys(5, key(1))
		slot := uint64(0)
		for _, round := range [][][]byte{{key(1), key(2)}, {key(2), key(1)}, {key(2)}, {key(2), key(3), key(4)}, {key(3), key(2), key(5)}} {
			for i, place := range places {
				place.set(nil, round...)
				time.Sleep(15 * time.Second)
				slot++
				peers[i].set(slot)
				c.agree(10*time.Second, slot, peers...)
				if got := peers[i].Status().Keys; got != len(round) {
					t.Errorf("%d keys are in use, want %d", got, len(round))
				}
			}
		}
		for _, p := range peers {
			if p.gone() > 0 {
				t.Error("a peer was taken for dead during the rotation")
			}
			if got := p.Status().Problems; len(got) > 0 {
				t.Errorf("problems after the rotation: %+v", got)
			}
		}
		late := c.start(6, func(cfg *gossip.Config) { cfg.Keys = func() ([][]byte, error) { return [][]byte{key(3)}, nil } })
		c.together(time.Minute, append(peers, late)...)
	})
}

// TestRotationInHaste has two peers without a common key for some seconds. Once they
// understand each other again, and one then stops, its key is not said to be the reason.
func TestRotationInHaste(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers, places := c.startWithKeys(2, key(1))
		places[0].set(nil, key(2))
		time.Sleep(13 * time.Second) // it was read again
		places[1].set(nil, key(2))
		time.Sleep(13 * time.Second)
		c.together(30*time.Second, peers...)
		time.Sleep(5 * time.Second)
		peers[1].crash()
		c.until(30*time.Second, "gone", func() bool { return peers[0].Status().Alive == 0 })
		if peers[0].problem("foreign-key", "") {
			t.Errorf("problems: %+v", peers[0].Status().Problems)
		}
	})
}

// TestKeysComeAndGo gives keys to a cluster that had none, then takes them away.
func TestKeysComeAndGo(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers, places := c.startWithKeys(3)
		for _, place := range places {
			place.set(nil, key(1))
		}
		time.Sleep(30 * time.Second)
		c.together(2*time.Minute, peers...)
		for _, place := range places {
			place.set(nil)
		}
		c.until(15*time.Second, "told", func() bool { return peers[0].problem("keys-unreadable", "the last ones stay in use") })
		places[0].set(errors.New("the file is gone"))
		c.until(15*time.Second, "told", func() bool { return peers[0].problem("keys-unreadable", "the file is gone") })
		if got := peers[0].Status().Keys; got != 1 {
			t.Errorf("%d keys are in use, want the last one", got)
		}
		helps(t, peers[0])
		places[0].set(nil, key(1))
		c.until(5*time.Minute, "mended", func() bool { return len(peers[0].Status().Problems) == 0 })
		c.together(time.Second, peers...)
	})
}

// helps demands that of keys that cannot be read it is said what to do.
func helps(t *testing.T, p *node) {
	t.Helper()
	for _, pr := range p.Status().Problems {
		if !strings.Contains(pr.Text, "the keys of the cluster cannot be read: ") || !strings.Contains(pr.Next, "mend RINGLET_KEY_FILE") {
			t.Errorf("nobody is helped by %+v", pr)
		}
	}
}

// TestNothingWithoutKeys keeps a peer off the network while its keys cannot be
// read.
func TestNothingWithoutKeys(t *testing.T) {
	inBubble(t, func(c *cluster) {
		place := &keys{}
		place.set(errors.New("permission denied"))
		p := c.start(1, func(cfg *gossip.Config) { cfg.Keys = place.read })
		time.Sleep(time.Minute)
		if packets, streams := c.net.Sent(); packets+streams > 0 || p.Status().Self.IsValid() {
			t.Errorf("%d packets and %d streams were sent, status %+v", packets, streams, p.Status())
		}
		if !p.problem("network-closed", "permission denied") || !p.problem("keys-unreadable", "permission denied") {
			t.Errorf("problems: %+v", p.Status().Problems)
		}
		helps(t, p)
		place.set(nil, []byte("short"))
		c.until(15*time.Second, "the key's length told", func() bool { return p.problem("keys-unreadable", "key 1 has 5 bytes") })
		place.set(nil, key(1))
		c.until(15*time.Second, "open", func() bool { return p.Status().Keys == 1 && len(p.Status().Problems) == 0 })
	})
}
