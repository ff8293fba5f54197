package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/heap"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// bench is a peer whose containers, their labels and the agreement of its cluster a test sets.
type bench struct {
	voter
	t   *testing.T
	d   *Directory
	log *events.Log

	mu     sync.Mutex
	held   map[netip.Addr]ipam.AddressStatus
	labels map[string]string // by container: its label set
	agreed identity.Registry
	asked  []ipam.IdentityRequest
	fails  error         // of the cluster; nil: it agrees
	hangs  chan struct{} // the cluster answers once that is closed; nil: at once
	deaf   bool          // another peer is the first voter

	stopped error // of what asks for the status; nil: it is told
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{voter: voter{alone{hostA}}, t: t, log: events.New(1, 0, 0), held: map[netip.Addr]ipam.AddressStatus{}, labels: map[string]string{}}
	d, err := New(Config{
		Self: hostA, Cluster: "test", Source: b, Log: b.log, Logger: slog.New(slog.DiscardHandler),
		About: func() Node { return Node{} }, Containers: b.containers, Identities: b,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.d = d
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return b
}

func (b *bench) Snapshot(ctx context.Context) (ipam.Status, error) {
	st, err := b.voter.Snapshot(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deaf {
		st.Voters = nil
	}
	return st, cmp.Or(b.stopped, err)
}

func (b *bench) List(context.Context, ipam.Listing) (out ipam.Portion, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range slices.SortedFunc(maps.Keys(b.held), netip.Addr.Compare) {
		out.Addresses = append(out.Addresses, b.held[a])
	}
	return out, nil
}

func (b *bench) containers(_ context.Context, ids []string) (map[string]Container, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]Container{}
	for _, id := range ids {
		out[id] = Container{Labels: b.labels[id]}
	}
	return out, nil
}

func (b *bench) Identities(context.Context) (identity.Registry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agreed.View(), nil
}

// Identify answers as a node does: what has no room is refused after the others have a number.
func (b *bench) Identify(ctx context.Context, r ipam.IdentityRequest) error {
	b.mu.Lock()
	b.asked = append(b.asked, r)
	hangs := b.hangs
	b.mu.Unlock()
	if hangs != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hangs:
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails != nil {
		return b.fails
	}
	refused := ""
	for _, text := range b.agreed.Missing(r.Labels) {
		if _, why := b.agreed.Identify(text); why != "" {
			refused = why
		}
	}
	b.agreed.Collect(r.Collect)
	if refused != "" {
		return &ipam.Error{Kind: ipam.ErrBadRequest, Text: "a container has no identity, because " + refused}
	}
	return nil
}

// hear takes in all that another peer says, whose ID is 2.
func (b *bench) hear(other *replica.Replica) {
	answers, _ := other.Take(replica.Want{At: []replica.Position{{Origin: peer.ID{2}}}}, time.Now())
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	for _, m := range answers {
		b.d.replica.Take(m, time.Now())
	}
	b.d.settle()
}

func at(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }

// hold has a container with such a label set take an address.
func (b *bench) hold(n int, container, labels string) {
	b.mu.Lock()
	b.labels[container] = labels
	b.held[at(n)] = ipam.AddressStatus{Address: at(n), Pool: fullPool, Peer: "host-a", State: "held", Kind: "container", Container: container, Name: container, Since: time.Unix(1.7e9, 0).UTC()}
	b.mu.Unlock()
	b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteGranted, Pool: fullPool, Address: at(n), Use: ipam.Use{Kind: "container", Container: container, Name: container, Since: time.Unix(1.7e9, 0).UTC()}})
}

func (b *bench) drop(n int) {
	b.mu.Lock()
	delete(b.held, at(n))
	b.mu.Unlock()
	b.log.Note(time.Now(), ipam.Note{Kind: ipam.NoteFreed, Pool: fullPool, Address: at(n), Use: ipam.Use{Kind: "container"}})
}

// shows compares what is said after a while: the keys of identities without their prefix, and what addresses say.
func (b *bench) shows(after time.Duration, want map[string]string) {
	b.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	got := map[string]string{}
	list, _ := b.d.List("ringlet/state/identities/v1/test/", "", 1000, 1<<20)
	for _, item := range list {
		got[strings.TrimPrefix(item.Key, "ringlet/state/identities/v1/test/")] = string(item.Value)
	}
	list, _ = b.d.List(AddressKeys("test"), "", 1000, 1<<20)
	for _, item := range list {
		var use Address
		if err := json.Unmarshal(item.Value, &use); err != nil {
			b.t.Fatal(err)
		}
		got[strings.TrimPrefix(item.Key, AddressKeys("test"))] = fmt.Sprint(use.Identity)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		b.t.Errorf("(-want +got)\n%s", diff)
	}
}

// Containers with equal labels have one number, which follows their addresses, and goes with the last of them.
func TestIdentities(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.hold(1, "web-1", "app=web")
		b.hold(2, "web-2", "app=web")
		b.hold(3, "plain", "")
		b.hold(4, "db", "app=d%2Fb;tier=1")
		want := map[string]string{
			"id/256": `{"labels":{"app":"d/b","tier":"1"}}`, "id/257": `{"labels":{"app":"web"}}`,
			"value/app=d%2Fb;tier=1/host-a": `{"identity":256}`, "value/app=web/host-a": `{"identity":257}`,
			"10.0.0.1": "257", "10.0.0.2": "257", "10.0.0.3": "0", "10.0.0.4": "256",
		}
		b.shows(2*time.Second, want)
		if labels, ok := b.d.Labels(256); !ok || labels["app"] != "d/b" {
			t.Errorf("256 is of %v", labels)
		}
		if n := b.d.Stats().Identities; n != 2 {
			t.Errorf("%d identities are counted", n)
		}
		b.drop(1)
		delete(want, "10.0.0.1")
		b.shows(time.Second, want)
		b.drop(2)
		b.hold(4, "web-3", "app=web") // of an address that another container had
		delete(want, "10.0.0.2")
		want["10.0.0.4"] = "257"
		delete(want, "value/app=d%2Fb;tier=1/host-a")
		b.shows(time.Second, want)
		b.hold(5, "web-3", "app=web") // one more network
		want["10.0.0.5"] = "257"
		b.shows(time.Second, want)

		asked := len(b.asked)
		time.Sleep(10 * time.Minute)
		if b.shows(0, want); len(b.asked) != asked {
			t.Errorf("at rest the cluster was asked %v", b.asked[asked:])
		}

		// What is removed comes back, and what nobody says stays away.
		b.d.write([]string{IdentityUseKeys("test") + "app=stray/host-a"}, [][]byte{[]byte(`{"identity":9}`)})
		b.d.Remove(t.Context(), "ringlet/state/", true)
		b.shows(10*time.Second, want)
		b.d.write([]string{IdentityUseKeys("test") + "app=stray/host-a"}, [][]byte{[]byte(`{"identity":9}`)})
		b.d.Remove(t.Context(), IdentityKeys("test"), true)
		b.shows(10*time.Second, want)

		// Somebody collects a set that is needed: it gets another number.
		b.mu.Lock()
		b.agreed.Collect([]uint64{257})
		b.mu.Unlock()
		delete(want, "id/257")
		want["id/258"], want["value/app=web/host-a"] = `{"labels":{"app":"web"}}`, `{"identity":258}`
		want["10.0.0.4"], want["10.0.0.5"] = "258", "258"
		b.shows(2*lookEvery, want)
	})
}

// Nothing waits for the cluster: addresses are told while it does not answer, and what was asked is asked again, not more.
func TestIdentitiesDelayNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.mu.Lock()
		b.hangs = make(chan struct{})
		b.mu.Unlock()
		want := map[string]string{}
		for i := 100; i < 140; i++ {
			b.hold(i, fmt.Sprint("c", i), fmt.Sprint("n=", i))
			want[at(i).String()] = "0"
			b.shows(time.Second, want)
		}
		b.hold(99, "c99", "a=0") // it comes before the others, and is not asked for together with what is under way
		want[at(99).String()] = "0"
		b.shows(time.Minute, want)
		if len(b.asked) != 1 {
			t.Errorf("the cluster was asked %d times while it did not answer", len(b.asked))
		}
		b.mu.Lock()
		first := b.asked[0].Labels
		b.fails = errors.New("no majority")
		close(b.hangs)
		b.mu.Unlock()
		b.shows(time.Minute, want)
		for _, q := range b.asked {
			if !slices.Equal(q.Labels, first) {
				t.Errorf("asked for %v beside %v", q.Labels, first)
			}
		}
		if n := len(b.asked); n < 3 || n > 8 {
			t.Errorf("asked %d times in a minute", n)
		}
		b.mu.Lock()
		b.fails, b.asked = nil, nil
		b.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for i := 99; i < 140; i++ {
			if h := b.d.Holdings(at(i)); len(h) != 1 || h[0].Identity == 0 {
				t.Errorf("%v is told to be %+v", at(i), h)
			}
		}
		for _, q := range b.asked {
			if len(q.Labels) > askedAtOnce {
				t.Errorf("%d sets are asked for at once", len(q.Labels))
			}
		}
	})
}

// Who does not know its status shows what is agreed all the same, and waits for something to do.
func TestIdentitiesWithoutStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		time.Sleep(time.Second)
		b.mu.Lock()
		b.stopped = errors.New("it ends")
		b.agreed.Identify("app=web")
		b.mu.Unlock()
		want := map[string]string{"id/256": `{"labels":{"app":"web"}}`}
		b.shows(2*time.Minute, want)
		b.d.Remove(t.Context(), "ringlet/", true)
		b.shows(2*time.Minute, want)

		d, end := running(t, alone{hostA}, events.New(1, 0, 0), nil)
		d.Remove(t.Context(), "ringlet/", true)
		time.Sleep(time.Minute)
		end()
	})
}

// Who has no identity is named as long as it is there: labels that are too long, and sets that are too many.
func TestUnidentified(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		longest := "n=" + strings.Repeat("x", identity.MaxText-2)
		b.hold(1, "fits", longest)
		b.hold(2, "long-b", longest+"x")
		b.hold(3, "long-a", longest+"xx")
		time.Sleep(2 * time.Second)
		long, full := b.d.Unidentified()
		if long == nil || long.Error() != "container long-a has no identity: its labels take 1026 bytes, and at most 1024 count (and 1 more)" || full != nil {
			t.Errorf("%v, %v", long, full)
		}
		b.shows(0, map[string]string{
			"id/256": fmt.Sprintf(`{"labels":{"n":%q}}`, longest[2:]), "value/" + longest + "/host-a": `{"identity":256}`,
			"10.0.0.1": "256", "10.0.0.2": "0", "10.0.0.3": "0",
		})
		b.drop(2)
		b.drop(3)
		time.Sleep(time.Second)
		if long, _ := b.d.Unidentified(); long != nil {
			t.Errorf("nobody is there any more, and still %v", long)
		}

		b.mu.Lock()
		for i := len(b.agreed.Sets); i < identity.MaxSets; i++ {
			b.agreed.Identify(fmt.Sprint("other=", i))
		}
		b.mu.Unlock()
		for i := 10; i < 50; i++ {
			b.hold(i, fmt.Sprint("c", i), fmt.Sprint("z=", i))
		}
		time.Sleep(2 * time.Second)
		if _, full := b.d.Unidentified(); full == nil || !strings.Contains(full.Error(), "there are 16384 label sets") {
			t.Errorf("with all numbers taken: %v", full)
		}
		if h := b.d.Holdings(at(10)); len(h) != 1 || h[0].Identity != 0 {
			t.Errorf("the address is told to be %+v", h)
		}
		b.mu.Lock()
		b.agreed.Collect([]uint64{300})
		b.mu.Unlock()
		time.Sleep(2 * lookEvery)
		given := 0
		for i := 10; i < 50; i++ {
			if h := b.d.Holdings(at(i)); len(h) == 1 && h[0].Identity != 0 {
				given++
			}
		}
		if _, full := b.d.Unidentified(); given != 1 || full == nil {
			t.Errorf("%d containers have the one number that was left, and %v", given, full)
		}
		for i := 10; i < 50; i++ {
			b.drop(i)
		}
		time.Sleep(time.Second)
		if _, full := b.d.Unidentified(); full != nil {
			t.Errorf("nobody is there any more, and still %v", full)
		}
	})
}

// The first voter collects what no host has referred to for two sweeps, by either key, and no other peer does.
func TestSweep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.hold(1, "web", "app=web")
		b.hold(2, "late", "app=late")
		time.Sleep(time.Second)
		other := replica.New(peer.ID{2}, 1)
		renew := func() {
			other.Renew(time.Now())
			b.hear(other)
		}
		b.mu.Lock()
		for _, text := range []string{"app=there", "app=by-address", "app=nowhere", "app=gone"} {
			b.agreed.Identify(text)
		}
		b.mu.Unlock()
		other.Set(IdentityUseKeys("test")+"app=there/host-b", []byte(`{"identity":258}`))
		other.Set(AddressKeys("test")+"10.0.1.1", encode(Address{Pool: fullPool, Node: "host-b", State: "held", Kind: "container", Identity: 259}))
		other.Set(AddressKeys("test")+"10.0.1.2", encode(Address{Pool: fullPool, Node: "host-b", State: "held", Kind: "container", Name: `"identity":260`, Identity: 7}))
		live := func() (out []uint64) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, s := range b.agreed.Sets {
				out = append(out, s.Number)
			}
			return out
		}
		pass := func(d time.Duration) {
			for range int(d / time.Minute) {
				renew()
				time.Sleep(time.Minute)
			}
		}
		pass(10 * time.Minute)
		b.drop(2) // within the lease of its host, and needed again before the second sweep
		pass(10 * time.Minute)
		b.hold(2, "late", "app=late")
		pass(9 * time.Minute)
		if got := live(); len(got) != 6 {
			t.Errorf("before the second sweep %v are left", got)
		}
		pass(4 * time.Minute)
		if got, want := live(), []uint64{256, 257, 258, 259}; !slices.Equal(got, want) {
			t.Errorf("%v are left, want %v", got, want)
		}
		b.mu.Lock()
		b.deaf = true
		b.mu.Unlock()
		b.drop(1)
		pass(time.Hour)
		if got := live(); len(got) != 4 {
			t.Errorf("a peer that is not the first voter has left %v", got)
		}
	})
}

// A number that another peer refers to is learned soon, and one that does not exist is not looked for without end.
func TestHeardOfNumber(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t)
		time.Sleep(time.Second)
		b.mu.Lock()
		b.agreed.Identify("app=far")
		b.mu.Unlock()
		if _, known := b.d.Labels(256); known {
			t.Fatal("it is known at once")
		}
		other := replica.New(peer.ID{2}, 1)
		refer := func(n int) {
			other.Set(IdentityUseKeys("test")+"app=far/host-b", fmt.Appendf(nil, `{"identity":%d}`, n))
			other.Renew(time.Now())
			b.hear(other)
		}
		refer(256)
		time.Sleep(time.Second)
		if labels, known := b.d.Labels(256); !known || labels["app"] != "far" {
			t.Errorf("256 is of %v", labels)
		}
		refer(1e9)
		time.Sleep(2 * time.Minute)
		b.d.mu.Lock()
		defer b.d.mu.Unlock()
		if b.d.agreement.heard != 0 {
			t.Error("it is still looked for")
		}
	})
}

// What a peer says of an address with an identity, and keeps of its container, is bounded.
func TestMemoryOfIdentities(t *testing.T) {
	const held = 20_000
	d, err := New(Config{
		Self: hostA, Cluster: "test", Source: full{held}, Log: events.New(1, 0, 0),
		About: func() Node { return Node{} }, Logger: slog.New(slog.DiscardHandler), Identities: &bench{},
		Containers: func(_ context.Context, ids []string) (map[string]Container, error) {
			out := map[string]Container{}
			for _, id := range ids {
				out[strings.Clone(id)] = Container{Labels: fmt.Sprint("app=", len(id)+int(id[63]), ";tier=", id[62:63])}
			}
			return out, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range keptEvents {
		d.watched.Put(replica.Event{Key: HeartKey("test"), Value: make([]byte, 400)})
	}
	p := &publisher{Directory: d, now: map[netip.Addr]Address{}, services: newServices(d.cfg, d.containers)}
	before := heap.InUse()
	if err := p.compareAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.services.resolve(t.Context())
	p.identified()
	for _, text := range d.agreement.missing {
		d.agreement.known.Identify(text)
	}
	d.agreement.version++
	p.identified()
	each := float64(heap.InUse()-before) / held
	fmt.Fprintf(t.Output(), "%.0f bytes for each address with one of %d identities\n", each, len(d.agreement.known.Sets))
	if each > 800 && !testing.Short() {
		t.Errorf("an address takes %.0f bytes", each)
	}
	if h := d.Holdings(netip.AddrFrom4([4]byte{10, 0, 0, 7})); len(h) != 1 || h[0].Identity == 0 {
		t.Errorf("it is told as %+v", h)
	}
	runtime.KeepAlive(p)
}

func TestNumberIn(t *testing.T) {
	for value, want := range map[string]uint64{
		`{"identity":256}`: 256, `{"a":1,"identity":7,"since":"x"}`: 7, `{"name":"\"identity\":5","mac":""}`: 0, `{"identity":}`: 0, `{"identity":18446744073709551616}`: 0, `"identity":12`: 12, ``: 0,
	} {
		if got, ok := numberIn([]byte(value)); got != want && ok || ok != (want != 0) {
			t.Errorf("%s: %d %v", value, got, ok)
		}
	}
}
