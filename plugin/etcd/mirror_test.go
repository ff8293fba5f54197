package etcd

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

// cluster is some directories that exchange frames, with the agreed status of their
// hosts.
type cluster struct {
	t     *testing.T
	id    string
	label string
	hosts []*host

	mu     sync.Mutex
	silent map[peer.ID]bool // hosts that the others do not reach
	pool   netip.Prefix
	agreed identity.Registry
}

// webLabels is the label set of containers whose name begins with web: as long as one may be.
var webLabels = identity.Text(map[string]string{"app": "a/b", "filler": strings.Repeat("x", identity.MaxText-len("app=a%2Fb;filler="))})

// Identities implements [directory.Identities].
func (c *cluster) Identities(context.Context) (identity.Registry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agreed.View(), nil
}

// Identify implements [directory.Identities].
func (c *cluster) Identify(_ context.Context, r ipam.IdentityRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range r.Labels {
		c.agreed.Identify(text)
	}
	c.agreed.Collect(r.Collect)
	return nil
}

// host is one host: its directory is real, and what it says of itself is told by
// the test.
type host struct {
	*directory.Directory
	c    *cluster
	self ipam.Identity
	log  *events.Log

	mu   sync.Mutex
	held map[netip.Addr]ipam.AddressStatus

	reports reports
	mirror  *Mirror
	end     context.CancelFunc
	ended   chan struct{}

	digest atomic.Uint64 // of its directory
}

// newCluster makes a cluster of n hosts. Nothing is mirrored yet.
func newCluster(t *testing.T, label string, number byte, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, id: strings.Repeat(fmt.Sprintf("%02x", number), 16), label: label, silent: map[peer.ID]bool{}, pool: netip.MustParsePrefix("10.50.0.0/16")}
	for i := range n {
		c.hosts = append(c.hosts, &host{c: c, self: ipam.Identity{
			ID: peer.ID{number, byte(i + 1)}, Name: peer.Name(fmt.Sprintf("%s-%d", label, i+1)), Boot: 1, Nonce: 1,
		}, held: map[netip.Addr]ipam.AddressStatus{}})
	}
	for _, h := range c.hosts {
		h.make()
	}
	for _, h := range c.hosts { // all of them are there, as they reach each other without a lock
		h.run()
	}
	return c
}

// make makes the directory of a host.
func (h *host) make() {
	h.log = events.New(uint64(h.self.Boot), h.self.Nonce, 0)
	d, err := directory.New(directory.Config{
		Self: h.self, Cluster: h.c.label, Source: source{h}, Log: h.log, Logger: quiet(),
		About:      func() directory.Node { return directory.Node{Version: "v1", Address: "192.0.2.1:7950"} },
		Containers: h.services, Identities: h.c,
	})
	if err != nil {
		h.c.t.Fatal(err)
	}
	h.Directory = d
}

// run starts the directory of a host.
func (h *host) run() {
	h.Carry(carrier{h})
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.c.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.Run(ctx) })
	wg.Go(func() { h.probe(ctx) })
	h.c.t.Cleanup(func() { cancel(); wg.Wait() })
}

// probe shows the digest of a host to the others again and again, as gossip does
// with the answer to every probe.
func (h *host) probe(ctx context.Context) {
	every := time.NewTicker(time.Second / 4)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		for _, other := range h.c.hosts {
			if other != h {
				other.Heard(h.self.ID, h.digest.Load())
			}
		}
	}
}

// services has each container of a name that begins with web in one service.
func (h *host) services(_ context.Context, ids []string) (map[string]directory.Container, error) {
	out := map[string]directory.Container{}
	for _, id := range ids {
		if strings.HasPrefix(id, "web") {
			out[id] = directory.Container{Namespace: "shop", Service: "web", Labels: webLabels}
		}
	}
	return out, nil
}

// source is what a host knows of itself.
type source struct{ *host }

// Snapshot implements [directory.Source].
func (s source) Snapshot(context.Context) (ipam.Status, error) {
	h := s.host
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	st := ipam.Status{State: ipam.Ready, Cluster: h.c.id, Slot: 7, Self: ipam.PeerStatus{ID: h.self.ID.String(), Name: string(h.self.Name)}}
	pool := ipam.PoolStatus{Pool: h.c.pool, Name: "lab", Size: 1 << 16}
	for _, other := range h.c.hosts {
		id := other.self.ID.String()
		st.Voters = append(st.Voters, id)
		st.Peers = append(st.Peers, ipam.PeerStatus{ID: id, Name: string(other.self.Name), Reachable: !h.c.silent[other.self.ID]})
		pool.Shares = append(pool.Shares, ipam.ShareStatus{Owner: id, Owned: 100})
	}
	st.Pools = []ipam.PoolStatus{pool}
	return st, nil
}

// List implements [directory.Source].
func (s source) List(context.Context, ipam.Listing) (out ipam.Portion, _ error) {
	h := s.host
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range slices.SortedFunc(maps.Keys(h.held), netip.Addr.Compare) {
		out.Addresses = append(out.Addresses, h.held[a])
	}
	return out, nil
}

// hold has a host hold an address for a container.
func (h *host) hold(n int, container string) {
	a := netip.AddrFrom4([4]byte{10, 50, byte(n >> 8), byte(n)})
	h.mu.Lock()
	h.held[a] = ipam.AddressStatus{Address: a, Pool: h.c.pool, Peer: string(h.self.Name), State: "held", Kind: "container", Container: container, Name: container, Since: time.Unix(1.7e9, 0).UTC()}
	h.mu.Unlock()
	h.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteGranted, Pool: h.c.pool, Address: a, Use: ipam.Use{Kind: "container", Container: container, Name: container, Since: time.Unix(1.7e9, 0).UTC()}})
}

// drop has a host free an address.
func (h *host) drop(n int) {
	a := netip.AddrFrom4([4]byte{10, 50, byte(n >> 8), byte(n)})
	h.mu.Lock()
	delete(h.held, a)
	h.mu.Unlock()
	h.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteFreed, Pool: h.c.pool, Address: a, Use: ipam.Use{Kind: "container"}})
}

// carrier brings frames to the other hosts at once.
type carrier struct{ *host }

func (c carrier) Send(to peer.ID, frames ...[]byte) {
	for _, h := range c.c.hosts {
		if h.self.ID == to {
			for _, f := range frames {
				h.Deliver(f)
			}
		}
	}
}

func (c carrier) Broadcast(frame []byte) {
	for _, h := range c.c.hosts {
		if h != c.host {
			h.Deliver(slices.Clone(frame))
		}
	}
}

func (carrier) Queued() int { return 0 }

func (c carrier) SetDigest(digest uint64) { c.digest.Store(digest) }

func (c carrier) Living() (out []peer.ID) {
	for _, h := range c.c.hosts {
		if h != c.host {
			out = append(out, h.self.ID)
		}
	}
	return out
}

// mirrored starts the mirror of a host.
func (h *host) mirrored(cfg Config) {
	h.c.t.Helper()
	cfg.Self, cfg.Directory, cfg.Report, cfg.Logger = h.self.ID, h.Directory, h.reports.set, quiet()
	m, err := New(cfg)
	if err != nil {
		h.c.t.Fatal(err)
	}
	h.mirror = m
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.c.t.Context()))
	h.ended = make(chan struct{})
	go func() {
		defer close(h.ended)
		_ = m.Run(ctx)
	}()
	h.end = sync.OnceFunc(func() { cancel(); <-h.ended })
	h.c.t.Cleanup(h.end)
}

// shown is what a host shows below ringlet/, in the form of etcd.
func (h *host) shown() map[string]string {
	list, _ := h.List("ringlet/", "", 1<<20, 1<<30)
	out := map[string]string{}
	for _, item := range list {
		key := item.Key
		if item.Owner != directory.Agreed && item.Owner != directory.Foreign {
			for _, other := range h.c.hosts {
				if other.self.ID.String() == item.Owner {
					key = other.Outside(key)
				}
			}
		}
		out[key] = string(item.Value)
	}
	return out
}

// alike waits until etcd and all hosts show the same, and returns how long it took.
func alike(t *testing.T, limit time.Duration, s *server, hosts ...*host) time.Duration {
	t.Helper()
	begun := time.Now()
	diff := ""
	for time.Since(begun) < limit {
		want := s.keys()
		diff = ""
		for _, h := range hosts {
			if diff = cmp.Diff(want, h.shown()); diff != "" {
				diff = string(h.self.Name) + ": " + diff
				break
			}
		}
		if diff == "" {
			return time.Since(begun)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("etcd and the hosts do not show the same within %v (-etcd +host)\n%s", limit, diff)
	return 0
}

// K5: what etcd has is what each host shows, and comes back whatever is done to
// it. What a host had goes when its lease ends, and no sooner.
func TestSame(t *testing.T) {
	s := start(t)
	c := newCluster(t, "lab", 1, 3)
	for i, h := range c.hosts {
		h.mirrored(Config{Endpoints: []string{s.client}})
		h.hold(10+i, fmt.Sprint("web-", i))
		h.hold(20+i, fmt.Sprint("db-", i))
	}
	alike(t, 20*time.Second, s, c.hosts...)
	got := s.keys()
	for _, key := range []string{
		"ringlet/.cluster/lab", "ringlet/.heartbeat/lab", "ringlet/state/nodes/v1/lab/lab-3", "ringlet/state/ip/v1/lab/10.50.0.12",
		"ringlet/state/services/v1/lab/shop/web/lab-2", "ringlet/state/pools/v1/lab/10.50.0.0/16", "ringlet/state/pools/v1/lab/names/lab",
		"ringlet/state/identities/v1/lab/id/256", "ringlet/state/identities/v1/lab/value/" + webLabels + "/lab-1", "ringlet/state/identities/v1/lab/value/" + webLabels + "/lab-3",
	} {
		if got[key] == "" {
			t.Errorf("etcd has no %s", key)
		}
	}
	if ip := got["ringlet/state/ip/v1/lab/10.50.0.11"]; !strings.Contains(ip, `"identity":256`) {
		t.Errorf("the address of web-1 is told as %s", ip)
	}
	const limit = 10 * time.Second
	for what, harm := range map[string]func(){
		"all deleted":       func() { s.ctl("del", "--prefix", "ringlet/") },
		"a value changed":   func() { s.ctl("put", "ringlet/state/ip/v1/lab/10.50.0.11", `{"node":"mallory"}`) },
		"an agreed changed": func() { s.ctl("put", "ringlet/state/pools/v1/lab/10.50.0.0/16", "{}") },
		"the label changed": func() { s.ctl("put", "ringlet/.cluster/lab", "nothing") },
		"a lease revoked":   func() { s.ctl("lease", "revoke", fmt.Sprintf("%x", int64(c.hosts[1].mirror.lease))) },
		"restarted":         func() { s.down(); s.up() },
		"wiped":             func() { s.down(); s.dir += "x"; s.up() },
		"wiped, and others were first": func() {
			claim := s.keys()["ringlet/.cluster/lab"]
			s.down()
			s.dir += "x"
			s.up()
			s.ctl("put", "ringlet/.cluster/lab", claim)
		},
		"wiped, and a change came before it was noticed": func() {
			s.down()
			s.dir += "x"
			s.up()
			c.hosts[1].hold(30, "late")
			until(t, limit, "the change is there", func() bool { return s.keys()["ringlet/state/ip/v1/lab/10.50.0.30"] != "" })
			s.ctl("del", "ringlet/state/ip/v1/lab/10.50.0.30")
		},
		"an address moved": func() { c.hosts[0].drop(10); c.hosts[1].hold(10, "web-9") },
	} {
		harm()
		took := alike(t, limit, s, c.hosts...)
		fmt.Fprintf(t.Output(), "%s: the same after %v\n", what, took.Round(time.Millisecond))
		if what == "a value changed" && s.keys()["ringlet/state/ip/v1/lab/10.50.0.11"] == `{"node":"mallory"}` {
			t.Error("the changed value stays")
		}
	}
	for _, h := range c.hosts {
		until(t, limit, string(h.self.Name)+" reports no error", func() bool { return h.reports.get() == nil && h.mirror.Up() })
	}
}

// A host that is killed keeps its keys until its lease ends; one that starts again
// takes them over.
func TestKilled(t *testing.T) {
	s := start(t)
	c := newCluster(t, "lab", 1, 3)
	const short = 6 * time.Second
	for i, h := range c.hosts {
		h.mirrored(Config{Endpoints: []string{s.client}, lease: map[bool]time.Duration{true: short, false: lease}[i == 2]})
		h.hold(10+i, fmt.Sprint("c", i))
	}
	alike(t, 20*time.Second, s, c.hosts...)
	const node, address = "ringlet/state/nodes/v1/lab/lab-3", "ringlet/state/ip/v1/lab/10.50.0.12"
	s.ctl("lease", "keep-alive", "--once", fmt.Sprintf("%x", int64(c.hosts[2].mirror.lease)))
	renewed := time.Now()
	c.hosts[2].end()
	time.Sleep(short / 2)
	if got := s.keys(); got["error"] == "" && (got[node] == "" || got[address] == "") {
		t.Error("the keys of a host that was killed went before its lease ended")
	}
	until(t, short, "its keys go", func() bool {
		got := s.keys()
		return got["error"] == "" && got[node] == "" && got[address] == ""
	})
	if gone := time.Since(renewed); gone < short-time.Second {
		t.Errorf("the keys went after %v, the lease is %v", gone, short)
	}
	c.hosts[2].drop(12)
	c.hosts[2].mirrored(Config{Endpoints: []string{s.client}})
	until(t, 10*time.Second, "it is back", func() bool { return s.keys()[node] != "" })

	// Again within its lease: what it does not hold any more goes at once.
	c.hosts[2].hold(13, "c3")
	alike(t, 10*time.Second, s, c.hosts...)
	c.hosts[2].end()
	c.hosts[2].drop(13)
	c.hosts[2].mirrored(Config{Endpoints: []string{s.client}})
	alike(t, 10*time.Second, s, c.hosts...)
}

// If the first voter is gone, the next one has what is agreed.
func TestNextVoter(t *testing.T) {
	s := start(t)
	c := newCluster(t, "lab", 1, 3)
	for _, h := range c.hosts {
		h.mirrored(Config{Endpoints: []string{s.client}})
	}
	alike(t, 20*time.Second, s, c.hosts...)
	owner := func() string {
		return s.ctl("get", "ringlet/state/pools/v1/lab/10.50.0.0/16", "-w", "fields")
	}
	held := func(h *host) bool {
		return strings.Contains(owner(), fmt.Sprintf(`"Lease" : %d`, int64(h.mirror.lease)))
	}
	if !held(c.hosts[0]) {
		t.Errorf("the pool is not the first voter's: %s", owner())
	}
	c.hosts[0].end()
	c.mu.Lock()
	c.silent[c.hosts[0].self.ID] = true
	c.mu.Unlock()
	c.hosts[1].log.Problems(time.Now(), []ipam.Problem{{Code: "peer-unreachable", Text: "x", Level: "degraded"}}) // has the status looked at
	until(t, 30*time.Second, "the second voter has the pool", func() bool { return held(c.hosts[1]) })
	until(t, 10*time.Second, "the second voter's heartbeat is there", func() bool {
		return strings.Contains(s.keys()["ringlet/.heartbeat/lab"], `"node":"lab-2"`)
	})
	s.ctl("lease", "revoke", fmt.Sprintf("%x", int64(c.hosts[0].mirror.lease)))
	until(t, 10*time.Second, "the label stays", func() bool { return s.keys()["ringlet/.cluster/lab"] != "" })
}

// K7: two clusters in one etcd see each other's keys, as foreign ones. A third that
// has the label of one of them is refused, and changes nothing.
func TestTwoClusters(t *testing.T) {
	s := start(t)
	a, b, twin := newCluster(t, "lab", 1, 2), newCluster(t, "office", 2, 2), newCluster(t, "lab", 3, 1)
	for i, h := range slices.Concat(a.hosts, b.hosts) {
		h.mirrored(Config{Endpoints: []string{s.client}})
		h.hold(10+i, fmt.Sprint("web-", i))
	}
	alike(t, 20*time.Second, s, slices.Concat(a.hosts, b.hosts)...)
	twin.hosts[0].hold(30, "web-30")
	twin.hosts[0].mirrored(Config{Endpoints: []string{s.client}})
	until(t, 10*time.Second, "the third is refused", func() bool {
		err := twin.hosts[0].reports.get()
		return err != nil && strings.Contains(err.Error(), "has the label lab there")
	})
	alike(t, 10*time.Second, s, slices.Concat(a.hosts, b.hosts)...)
	if s.keys()["ringlet/state/ip/v1/lab/10.50.0.30"] != "" {
		t.Error("the third cluster has written")
	}
	for _, key := range []string{"ringlet/state/nodes/v1/office/office-1", "ringlet/state/ip/v1/office/10.50.0.12", "ringlet/state/services/v1/office/shop/web/office-2"} {
		if got := a.hosts[0].Get(key); len(got) != 1 || got[0].Owner != directory.Foreign {
			t.Errorf("%s is shown as %+v", key, got)
		}
	}
	if got := a.hosts[0].Holdings(netip.MustParseAddr("10.50.0.12")); len(got) > 0 {
		t.Errorf("a foreign address counts as held: %+v", got)
	}
	b.hosts[0].drop(12)
	until(t, 5*time.Second, "the other cluster sees that an address is free", func() bool {
		return len(a.hosts[1].Get("ringlet/state/ip/v1/office/10.50.0.12")) == 0
	})
	for range 5 { // the third does not get in between
		s.ctl("del", "--prefix", "ringlet/")
		alike(t, 10*time.Second, s, slices.Concat(a.hosts, b.hosts)...)
	}
	for _, h := range a.hosts {
		h.end()
	}
	s.ctl("del", "--prefix", "ringlet/")
	until(t, 2*takeAfter, "the third has the label of a cluster that is gone", func() bool {
		return s.keys()["ringlet/state/ip/v1/lab/10.50.0.30"] != "" && twin.hosts[0].reports.get() == nil
	})
}

// K6: while etcd is frozen, the directory works on, nothing piles up, and
// etcd is brought up to date when it runs again.
func TestFrozen(t *testing.T) {
	frozen := 25 * time.Second
	s := start(t)
	c := newCluster(t, "lab", 1, 2)
	for _, h := range c.hosts {
		h.mirrored(Config{Endpoints: []string{s.client}})
	}
	alike(t, 20*time.Second, s, c.hosts...)
	s.signal(syscall.SIGSTOP)
	slowest := time.Duration(0)
	for begun, i := time.Now(), 0; time.Since(begun) < frozen; i++ {
		at := time.Now()
		c.hosts[i%2].hold(100+i%1000, fmt.Sprint("c", i))
		if i >= 500 {
			c.hosts[(i-500)%2].drop(100 + (i-500)%1000)
		}
		slowest = max(slowest, time.Since(at))
		time.Sleep(5 * time.Millisecond)
	}
	if slowest > time.Second {
		t.Errorf("while etcd was frozen an address took %v", slowest)
	}
	until(t, 10*time.Second, "the hosts say so", func() bool {
		err := c.hosts[0].reports.get()
		return err != nil && !c.hosts[0].mirror.Up() && strings.Contains(err.Error(), "does not answer within")
	})
	s.signal(syscall.SIGCONT)
	took := alike(t, 30*time.Second, s, c.hosts...)
	fmt.Fprintf(t.Output(), "the same %v after etcd was thawed, with %d keys\n", took.Round(time.Millisecond), len(s.keys()))
}
