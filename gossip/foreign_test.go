package gossip_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam/peer"
)

// TestForeign starts two peers that cannot talk to each other.
func TestForeign(t *testing.T) {
	for name, tt := range map[string]struct {
		labels      [2]string
		keys        [2][][]byte
		code, text  string // what the first says of the second
		joinCode    string // what the second says of the first
		joinFailure string
	}{
		"label": {
			[2]string{"blue", "red"},
			[2][][]byte{},
			"foreign-label", `10.0.0.2 is in another cluster than "blue"`, "seed-unreachable", "closes the connection without an answer",
		},
		"label and key": {
			[2]string{"blue", "red"},
			[2][][]byte{{key(1)}, {key(1)}},
			"foreign-label", `10.0.0.2 is in another cluster than "blue"`, "seed-unreachable", "closes the connection without an answer",
		},
		"key": {
			[2]string{"blue", "blue"},
			[2][][]byte{{key(1), key(2)}, {key(3)}},
			"foreign-key", "10.0.0.2 encrypts with a key that this host does not have", "seed-unreachable", "closes the connection without an answer",
		},
		"the second without a key": {
			[2]string{"blue", "blue"},
			[2][][]byte{{key(1)}, nil},
			"unencrypted-peer", "10.0.0.2 does not encrypt", "seed-unreachable", "closes the connection without an answer",
		},
		"the first without a key": {
			[2]string{"blue", "blue"},
			[2][][]byte{nil, {key(1)}},
			"no-key", "10.0.0.2 encrypts, but this host has no key", "seed-unreachable", "closes the connection without an answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var peers [2]*node
				for i := range peers {
					peers[i] = c.start(i+1, func(cfg *gossip.Config) {
						cfg.Label = tt.labels[i]
						cfg.Keys = func() ([][]byte, error) { return tt.keys[i], nil }
					})
				}
				c.until(20*time.Second, "told by both", func() bool {
					return peers[0].problem(tt.code, tt.text) && peers[1].problem(tt.joinCode, tt.joinFailure)
				})
				for _, p := range peers {
					if p.Status().Alive > 0 || len(p.Status().Problems) != 1 {
						t.Errorf("got %+v, want one problem and nobody alive", p.Status())
					}
				}
				peers[1].stop()
				c.until(time.Minute, "forgotten", func() bool { return len(peers[0].Status().Problems) == 0 })
			})
		})
	}
}

// TestForeignMended starts two peers that cannot talk to each other, and then the one of them anew that the advice is about, with
// the label and the keys of the other. All problems end, also the one that the other has had for a while.
func TestForeignMended(t *testing.T) {
	blue, red := []string{"blue", ""}, []string{"red", ""}
	for name, tt := range map[string]struct {
		first, second []string // label, and key
		again         int      // who is started anew
		codes         []string // of one or the other
	}{
		"label":                    {blue, red, 1, []string{"foreign-label", "seed-unreachable"}},
		"key":                      {[]string{"blue", "1"}, []string{"blue", "2"}, 1, []string{"foreign-key", "seed-unreachable"}},
		"the second without a key": {[]string{"blue", "1"}, blue, 1, []string{"unencrypted-peer", "seed-unreachable"}},
		"the first without a key":  {blue, []string{"blue", "1"}, 0, []string{"no-key", "seed-unreachable"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				with := func(how []string, boot peer.Boot) func(*gossip.Config) {
					return func(cfg *gossip.Config) {
						cfg.Label, cfg.Boot = how[0], boot
						if how[1] != "" {
							cfg.Keys = func() ([][]byte, error) { return [][]byte{key(how[1][0])}, nil }
						}
					}
				}
				peers := []*node{c.start(1, with(tt.first, 1)), c.start(2, with(tt.second, 1))}
				c.until(20*time.Second, "told", func() bool {
					return peers[0].problem(tt.codes[0], "") && peers[1].problem(tt.codes[1], "has another key, is in another cluster, or is not ringlet")
				})
				how := [][]string{tt.second, tt.first}[tt.again]
				peers[tt.again].stop()
				peers[tt.again] = c.start(tt.again+1, with(how, 2))
				c.together(time.Minute, peers...)
				c.until(time.Minute, "over", func() bool { return len(peers[0].Status().Problems)+len(peers[1].Status().Problems) == 0 })
			})
		})
	}
}

// TestForeignStays has a peer that clusters of several sizes, with another key, look for again and again. It says so of each of
// their hosts without a pause, and of none a minute after they have gone.
func TestForeignStays(t *testing.T) {
	for _, others := range []int{1, 2, 4, 9} {
		t.Run(strconv.Itoa(others), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				one := c.start(1, func(cfg *gossip.Config) { cfg.Keys = func() ([][]byte, error) { return [][]byte{key(1)}, nil } })
				var foreign []*node
				for i := range others {
					foreign = append(foreign, c.start(i+2, func(cfg *gossip.Config) {
						cfg.Join = []string{at(1).String(), at(2).String()}
						cfg.Keys = func() ([][]byte, error) { return [][]byte{key(2)}, nil }
					}))
				}
				told := func() (n int) {
					for _, p := range one.Status().Problems {
						if p.Code == "foreign-key" {
							n++
						}
					}
					return n
				}
				c.together(time.Minute, foreign...)
				// A peer that met the others before it looked for this one looks only now and then, until it is refused.
				c.until(2*time.Hour, "told of all", func() bool { return told() == others })
				for begun := time.Now(); time.Since(begun) < time.Hour; time.Sleep(time.Second) {
					if n := told(); n != others {
						t.Fatalf("%d of %d foreign hosts are told after %v", n, others, time.Since(begun))
					}
				}
				for _, p := range foreign {
					p.stop()
				}
				c.until(time.Minute, "forgotten", func() bool { return told() == 0 })
			})
		})
	}
}
