package gossip_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
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

// TestPortBusy starts a peer while somebody else has its port.
func TestPortBusy(t *testing.T) {
	inBubble(t, func(c *cluster) {
		squatter, err := c.net.Listen(at(2))
		if err != nil {
			t.Fatal(err)
		}
		a, b := c.start(1), c.start(2)
		c.until(10*time.Second, "told", func() bool { return b.problem("network-closed", "10.0.0.2:7950 cannot be opened for peers") })
		b.Send(a.id, b.frame(wire.Beat{}))
		b.Broadcast(b.frame(wire.Beat{}))
		time.Sleep(time.Minute)
		if err := squatter.Shutdown(); err != nil {
			t.Fatal(err)
		}
		c.together(20*time.Second, a, b)
		if got := b.Status().Problems; len(got) > 0 {
			t.Errorf("problems: %+v", got)
		}
	})
}

// TestBindElsewhere starts a peer that is to listen at an address which its host does not have.
func TestBindElsewhere(t *testing.T) {
	inBubble(t, func(c *cluster) {
		p := c.start(1, func(cfg *gossip.Config) {
			cfg.Transport = func(netip.AddrPort) (memberlist.Transport, error) {
				return nil, &net.OpError{Op: "listen", Net: "tcp4", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}
			}
		})
		c.until(10*time.Second, "told", func() bool { return p.problem("network-closed", "cannot be opened for peers") })
		for _, problem := range p.Status().Problems {
			if want := "set RINGLET_BIND to an address that this host has, or to 0.0.0.0:7950 for all"; problem.Next != want {
				t.Errorf("advised %q, want %q", problem.Next, want)
			}
		}
	})
}

// TestSilent joins at a host that takes connections and says nothing: one that is
// stopped, or behind a network that loses long packets, or a program that is no peer and
// waits for the rest of a request, as a web server does.
func TestSilent(t *testing.T) {
	inBubble(t, func(c *cluster) {
		if _, err := c.net.Listen(at(1)); err != nil {
			t.Fatal(err)
		}
		p := c.start(2)
		c.until(20*time.Second, "told", func() bool {
			return p.problem("seed-unreachable", "10.0.0.1:7950 in RINGLET_JOIN cannot be reached: it accepts connections, but does not answer")
		})
		if got := p.Status().Problems; !strings.HasPrefix(got[0].Next, "check which program has the port there") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestSlowReceiver has a peer whose Deliver takes ten seconds.
func TestSlowReceiver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(5)
		slow := peers[2]
		slow.mu.Lock()
		slow.block = 10 * time.Second
		slow.mu.Unlock()
		for range 60 {
			for range 100 {
				peers[0].Send(slow.id, peers[0].frame(wire.Beat{}))
			}
			time.Sleep(time.Second)
		}
		for _, p := range peers {
			if p.gone() > 0 {
				t.Error("the slow peer, or another, was taken for dead")
			}
		}
		if got := slow.Status().Counts; got.Overrun == 0 || got.Received == 0 {
			t.Errorf("got %+v, want frames delivered and frames dropped", got)
		}
		peers[1].set(1) // passes the frames that wait
		c.agree(time.Minute, 1, peers...)
		slow.mu.Lock()
		slow.block = 0
		slow.mu.Unlock()
		c.until(time.Minute, "caught up", func() bool { return slow.Status().Counts.Received >= 4096 })
	})
}

// TestStalledReceiver has a peer to which connections do not get through.
func TestStalledReceiver(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		c.net.SetLink(func(_, to netip.AddrPort) memnet.Link { return memnet.Link{NoDial: to == at(2)} })
		long := wire.Submit{Batch: make([]byte, 50_000)}
		for range 1000 {
			peers[0].Send(peers[1].id, peers[0].frame(long))
		}
		peers[0].Send(peers[1].id, peers[0].frame(wire.Join{Name: "short"}))
		peers[0].Send(peers[2].id, peers[0].frame(long))
		c.until(time.Second, "the other peer is not delayed, nor is what needs no connection", func() bool {
			return peers[2].received(func(f got) bool { return f.Body.Type() == long.Type() }) &&
				peers[1].received(func(f got) bool { return f.Body == wire.Join{Name: "short"} })
		})
		// Some get their turn, the rest is soon too old.
		c.until(2*time.Second, "given up", func() bool { return peers[0].Status().Counts.Dropped >= 990 })
		c.until(10*time.Second, "failed", func() bool {
			got := peers[0].Status().Counts
			return got.Failed > 0 && got.Failed+got.Dropped == 1000
		})
	})
}

// measured notes the longest packet.
type measured struct {
	memberlist.Transport
	longest *atomic.Int64
}

func (m measured) WriteTo(b []byte, addr string) (time.Time, error) {
	if n := int64(len(b)); n > m.longest.Load() {
		m.longest.Store(n)
	}
	return m.Transport.WriteTo(b, addr)
}

// TestSize sends frames as long as they may be, and longer.
func TestSize(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var longest atomic.Int64
		peers := c.startAll(2, func(cfg *gossip.Config) {
			cfg.Label = "sixteen letters!"
			cfg.Keys = func() ([][]byte, error) { return [][]byte{key(1)}, nil }
			cfg.Transport = func(bind netip.AddrPort) (memberlist.Transport, error) {
				tr, err := c.net.Open(bind)
				return measured{tr, &longest}, err
			}
		})
		a, b := peers[0], peers[1]
		overhead := len(a.frame(wire.Submit{Batch: make([]byte, 1000)})) - 1000
		batch := make([]byte, gossip.MaxBroadcast-overhead)
		a.Broadcast(a.frame(wire.Submit{Batch: batch}))
		arrived := func(f got) bool {
			s, ok := f.Body.(wire.Submit)
			return ok && len(s.Batch) == len(batch)
		}
		c.until(10*time.Second, "the longest broadcast arrives", func() bool { return b.received(arrived) })
		for size := range 2000 { // alone, and two that fit together
			a.Send(b.id, a.frame(wire.Submit{Batch: make([]byte, size)}), a.frame(wire.Pull{After: uint64(size)}))
			c.until(time.Second, "a frame of any length arrives", func() bool {
				return b.received(func(f got) bool { return f.Body == wire.Pull{After: uint64(size)} })
			})
		}
		if got := longest.Load(); got < 1100 || got > 1200 {
			t.Errorf("the longest packet has %d bytes, want at most 1200, and not much less", got)
		}

		state := bytes.Repeat([]byte("snapshot"), (wire.MaxFrame-200)/8)
		a.Send(b.id, a.frame(wire.Snapshot{State: state}))
		c.until(10*time.Second, "the longest frame arrives", func() bool {
			return b.received(func(f got) bool {
				s, ok := f.Body.(wire.Snapshot)
				return ok && bytes.Equal(s.State, state)
			})
		})
		a.Broadcast(a.frame(wire.Submit{Batch: make([]byte, len(batch)+1)}))
		a.Broadcast(nil)
		a.SetBeat(make([]byte, gossip.MaxBroadcast+1))
		a.Send(b.id, make([]byte, wire.MaxFrame+1))
		a.Send(b.id, nil)
		if got := a.Status().Counts.Oversize; got != 5 {
			t.Errorf("%d frames refused for their length, want 5", got)
		}
		if got := a.Status().Queued; got > 1 {
			t.Errorf("%d broadcasts are queued, the refused one among them", got)
		}
	})
}

// TestFlood broadcasts more than the network carries.
func TestFlood(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		for i := range 3000 {
			peers[0].Broadcast(peers[0].frame(wire.Pull{After: uint64(i)}))
		}
		got := peers[0].Status()
		if got.Queued > 1024 || got.Counts.BroadcastsDropped == 0 || got.Counts.Broadcast != 3000 {
			t.Errorf("got %+v, want at most 1024 queued and the rest counted", got)
		}
		c.until(3*time.Minute, "drained", func() bool { return peers[0].Status().Queued == 0 })
		if peers[1].gone() > 0 {
			t.Error("a peer was taken for dead during the flood")
		}
	})
}

// TestCopied starts two peers with one identity.
func TestCopied(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		twin := c.start(4, func(cfg *gossip.Config) { cfg.ID, cfg.Nonce = peers[2].id, 77 })
		// The original is not told here: no two members of one name ever speak.
		c.until(time.Minute, "told", func() bool {
			return peers[0].problem("identity-conflict", "is at 10.0.0.3:7950 and also claims to be at 10.0.0.4:7950") &&
				twin.problem("identity-conflict", "a host at 10.0.0.3:7950 uses the ID of this peer, which is at 10.0.0.4:7950")
		})
		// What is sent to one reaches both: the cores must find out that there are two.
		told := func(n *node) bool {
			return n.received(func(f got) bool { return f.Body == wire.Pull{After: 7} && f.From == peers[0].id })
		}
		peers[0].Send(twin.id, peers[0].frame(wire.Pull{After: 7}))
		c.until(time.Second, "both hear", func() bool { return told(peers[2]) && told(twin) })
		twin.crash()
		c.until(5*time.Minute, "over", func() bool { return len(peers[0].Status().Problems) == 0 })
	})
}

// intruder is a memberlist of somebody else's, which sends what it likes. It
// notices when it is probed, as members are.
type intruder struct {
	state  []byte
	probed *atomic.Bool
}

func (intruder) NodeMeta(int) []byte               { return []byte("not a peer's") }
func (intruder) NotifyMsg([]byte)                  {}
func (intruder) GetBroadcasts(_, _ int) [][]byte   { return nil }
func (i intruder) LocalState(bool) []byte          { return i.state }
func (intruder) MergeRemoteState(_ []byte, _ bool) {}

func (i intruder) AckPayload() []byte {
	i.probed.Store(true)
	return nil
}
func (intruder) NotifyPingComplete(*memberlist.Node, time.Duration, []byte) {}

// TestIntruder lets in nobody that is no peer, and survives what it says.
func TestIntruder(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(2)
		transport, err := c.net.Listen(at(66))
		if err != nil {
			t.Fatal(err)
		}
		cfg := memberlist.DefaultLANConfig()
		cfg.Name, cfg.Label, cfg.Transport, cfg.LogOutput = "host-66", "test", transport, t.Output()
		cfg.EnableCompression = false // peers compress nothing, and take nothing that is compressed
		other := intruder{bytes.Repeat([]byte{1}, 5000), &atomic.Bool{}}
		cfg.Delegate, cfg.Ping = other, other
		list, err := memberlist.Create(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := list.Shutdown(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := list.Join([]string{at(1).String()}); err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(list.Members(), func(n *memberlist.Node) bool { return n.Port == at(1).Port() && n.Addr.Equal(at(1).Addr().AsSlice()) })
		if first < 0 {
			t.Fatal("the intruder does not see the peer that it joined")
		}
		for _, b := range [][]byte{{1}, []byte("two words"), bytes.Repeat([]byte{0}, 33)} {
			if err := list.SendReliable(list.Members()[first], b); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		for _, p := range peers {
			if got := p.Status(); got.Alive != 1 || got.Known != 1 {
				t.Errorf("got %+v, want to know the other peer alone", got)
			}
		}
		if other.probed.Load() {
			t.Error("the intruder is a member")
		}
		if got := peers[0].Status().Counts.Undecodable; got < 4 { // three messages, and the state at least once
			t.Errorf("%d undecodable frames, want 4 or more", got)
		}
	})
}

// TestGarbageBeat has a peer whose beat is none.
func TestGarbageBeat(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3)
		peers[0].set(1)
		c.agree(time.Minute, 1, peers...)
		peers[2].SetBeat([]byte("garbage"))
		c.until(time.Minute, "counted", func() bool { return peers[0].Status().Counts.Undecodable > 0 })
		if peers[0].gone() > 0 {
			t.Error("a peer was taken for dead for its garbage")
		}
	})
}

// TestNoBeat has peers that have not said how far they are.
func TestNoBeat(t *testing.T) {
	inBubble(t, func(c *cluster) {
		peers := c.startAll(3, func(cfg *gossip.Config) { cfg.Name = peer.Name("quiet") })
		peers[1].SetBeat(nil)
		time.Sleep(time.Minute)
		if got := peers[0].Status().Counts; got.Undecodable > 0 {
			t.Errorf("got %+v, want nothing undecodable", got)
		}
	})
}

// TestRunTwice refuses to run again what has ended.
func TestRunTwice(t *testing.T) {
	inBubble(t, func(c *cluster) {
		p := c.start(1)
		p.stop()
		if err := p.Run(t.Context()); err == nil {
			t.Error("the second run is no error")
		}
		p.Send(idOf(2), p.frame(wire.Beat{}))
		p.Broadcast(p.frame(wire.Beat{}))
		if got := p.Status(); got.Self.IsValid() {
			t.Errorf("got %+v, want a closed network", got)
		}
	})
}
