package dockerd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/network"
	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
)

// bench is a watcher on a fake engine in a bubble. When the test function ends
// both are taken down; a goroutine that stays behind fails the bubble.
type bench struct {
	*fakeEngine
	w       *Watcher
	logged  *bytes.Buffer // to be read when the bubble is idle
	started time.Time
	blinds  atomic.Int32 // calls of what WhenBlind was given

	mu     sync.Mutex
	looks  []Inventory
	answer func(Inventory) (time.Duration, error)
}

// inBubble runs test with a running watcher and a fake engine that is not
// started yet.
func inBubble(t *testing.T, cfg Config, test func(b *bench)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		b := &bench{fakeEngine: newFakeEngine(t), logged: &bytes.Buffer{}, started: time.Now()}
		cfg.Socket = "/run/docker/host/docker.sock"
		if cfg.Plugin == "" {
			cfg.Names = append(cfg.Names, "ringlet")
		}
		cfg.Rand = rand.New(rand.NewPCG(1, 2))
		cfg.Logger = slog.New(slog.NewTextHandler(b.logged, nil))
		cfg.dial = b.dial
		w, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.w = w
		w.WhenBlind(func(context.Context) error { b.blinds.Add(1); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := w.Run(ctx, b.deliver); err != nil {
				t.Errorf("Run returned %v, want nil", err)
			}
		})
		defer func() {
			cancel()
			running.Wait()
			b.stop()
			synctest.Wait()
		}()
		test(b)
	})
}

func (b *bench) deliver(_ context.Context, inv Inventory) (time.Duration, error) {
	b.mu.Lock()
	b.looks = append(b.looks, inv)
	answer := b.answer
	b.mu.Unlock()
	if answer != nil {
		return answer(inv)
	}
	return 0, nil
}

// answerWith decides what the consumer answers from now on.
func (b *bench) answerWith(answer func(Inventory) (time.Duration, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// after lets d pass and everything settle, and returns the inventories
// delivered since the last call.
func (b *bench) after(d time.Duration) []Inventory {
	time.Sleep(d)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	looks := b.looks
	b.looks = nil
	return looks
}

// want fails unless the looks are n and complete.
func (b *bench) want(looks []Inventory, n int) {
	b.t.Helper()
	complete := 0
	for _, inv := range looks {
		if inv.Complete {
			complete++
		}
	}
	if complete != n || len(looks) != n {
		b.t.Fatalf("got %d looks, %d of them complete, want %d; state %+v", len(looks), complete, n, b.w.State())
	}
}

var oneContainer = map[string]network.EndpointResource{
	"c1": {Name: "web", EndpointID: "e1", MacAddress: "02:42:0A:01:00:09", IPv4Address: "10.1.0.9/24"},
}

func TestLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.set("n1", oneContainer)
		b.networks["c"] = network.Inspect{ID: "c", Name: "template", ConfigOnly: true, IPAM: network.IPAM{Driver: "ringlet"}}
		b.startPipes()
		looks := b.after(time.Second)
		b.want(looks, 1)
		n, err := parseNetwork(b.networks["n1"])
		if err != nil {
			t.Fatal(err)
		}
		want := Inventory{
			Begun: b.started, Ended: b.started, Engine: "ENGINE", EngineVersion: "28.5.2", Complete: true, Listed: true,
			Networks: []Network{n},
		}
		got := looks[0]
		// The engine was not there at once, so the times are later.
		want.Begun, want.Ended = got.Begun, got.Ended
		if diff := cmp.Diff(want, got, compareNetip); diff != "" {
			t.Errorf("inventory (-want +got):\n%s", diff)
		}
		s := b.w.State()
		if !s.Connected || s.LastError != "" || s.Engine != "ENGINE" || s.EngineVersion != "28.5.2" || s.APIVersion != "1.41" || s.LastLook != got.Ended {
			t.Errorf("got state %+v", s)
		}
	})
}

// The list of a swarm's manager does not tell the IPAM driver of a network that
// each node makes from its configuration. What tasks have there is in use all
// the same.
func TestLookOnASwarmManager(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		for id, driver := range map[string]string{"ours": "ringlet", "foreign": "default", "without tasks here": ""} {
			b.networks[id] = network.Inspect{
				ID: id, Name: id, Scope: "swarm", ConfigFrom: network.ConfigReference{Network: "config"},
				IPAM: network.IPAM{Driver: driver}, Containers: oneContainer,
			}
		}
		b.networks["overlay"] = network.Inspect{ID: "overlay", Scope: "swarm", IPAM: network.IPAM{Driver: "default"}}
		b.startPipes()
		looks := b.after(time.Second)
		b.want(looks, 1)
		if got := looks[0].Networks; len(got) != 1 || got[0].ID != "ours" || len(got[0].Endpoints) != 1 {
			t.Errorf("got networks %+v, want ours alone, with its endpoint", got)
		}
		if n := b.count("/networks/overlay"); n > 0 {
			t.Errorf("a network that cannot be ours was asked about %d times", n)
		}
	})
}

// A list of networks is one call, at once, also in the middle of a look.
func TestAskNetworks(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		var got []string
		b.w.WhenAsked(func(ctx context.Context, list List) {
			networks, err := list(ctx)
			for _, n := range networks {
				got = append(got, n.ID)
				if len(n.Endpoints) > 0 || len(n.Subnets) != 1 {
					t.Errorf("listed %+v", n)
				}
			}
			if err != nil {
				got = append(got, err.Error())
			}
		})
		b.set("n1", oneContainer)
		b.set("n2", nil)
		b.networks["ours"] = network.Inspect{ID: "ours", ConfigFrom: network.ConfigReference{Network: "config"}, IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.2.0.0/24"}}}}
		b.startPipes()
		b.want(b.after(time.Second), 1)
		looks, inspects := b.count("/networks"), b.count("/networks/n1")
		b.w.AskNetworks()
		b.want(b.after(0), 0)
		if slices.Sort(got); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("listed %q", got)
		}
		if n, m := b.count("/networks")-looks, b.count("/networks/n1")-inspects; n != 1 || m != 0 {
			t.Errorf("it took %d lists and %d looks at a network", n, m)
		}
		asked := false
		b.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
			if !asked && strings.HasSuffix(r.URL.Path, "/networks/n1") {
				asked = true
				b.w.AskNetworks()
			}
			return false
		})
		got = nil
		b.w.Recheck()
		b.want(b.after(time.Second), 1)
		if slices.Sort(got); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("in the middle of a look %q are listed", got)
		}
		b.breakWith(say("/networks", http.StatusInternalServerError, `{"message":"datastore is broken"}`))
		got = nil
		b.w.AskNetworks()
		b.after(0)
		if len(got) != 1 || !strings.Contains(got[0], "datastore is broken") {
			t.Errorf("without an answer: %q", got)
		}
	})
}

func TestLooksEveryInterval(t *testing.T) {
	inBubble(t, Config{Interval: time.Minute}, func(b *bench) {
		b.startPipes()
		b.want(b.after(time.Second), 1)
		b.want(b.after(10*time.Minute), 10)
	})
}

func TestEventsAreHints(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.startPipes()
		b.want(b.after(time.Second), 1)
		for kind, actions := range hintActions() {
			for _, action := range actions {
				b.emitEvent(kind, action)
				b.want(b.after(time.Second), 1)
			}
		}
		b.emitEvent(events.ContainerEventType, events.ActionCreate)
		b.emitEvent(events.ContainerEventType, events.ActionHealthStatusHealthy)
		b.emitEvent(events.ImageEventType, events.ActionDestroy)
		b.want(b.after(time.Second), 0)
	})
}

func TestBurstOfHintsIsOneLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.startPipes()
		b.want(b.after(time.Second), 1)
		for range 50 {
			b.emitEvent(events.NetworkEventType, events.ActionConnect)
			b.w.Recheck()
			time.Sleep(time.Millisecond)
		}
		b.want(b.after(time.Second), 1)
	})
}

func TestHintsThatKeepComingDoNotDelayTheLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.startPipes()
		b.want(b.after(time.Second), 1)
		for range 100 { // 10 s, always within the debounce time
			b.emitEvent(events.NetworkEventType, events.ActionConnect)
			time.Sleep(100 * time.Millisecond)
		}
		if got := len(b.after(0)); got < 25 || got > 50 {
			t.Errorf("got %d looks in 10 s of steady hints, want one per debounce time or so", got)
		}
	})
}

// Looks that take long, on a host with very many networks or a busy engine,
// leave it most of its time however many hints there are.
func TestSlowEngineIsSpared(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/networks" {
				time.Sleep(time.Second)
			}
			return false
		})
		b.startPipes()
		b.want(b.after(2*time.Second), 1)
		for range 100 {
			b.emitEvent(events.NetworkEventType, events.ActionConnect)
			time.Sleep(400 * time.Millisecond)
		}
		if got := len(b.after(0)); got < 8 || got > 10 {
			t.Errorf("got %d looks of 1 s in 40 s, want 10 at most", got)
		}
	})
}

func TestSlowConsumerDoesNotBlockTheEngine(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.answerWith(func(Inventory) (time.Duration, error) { time.Sleep(20 * time.Second); return 0, nil })
		b.startPipes()
		time.Sleep(time.Second)
		for range 5000 {
			b.emitEvent(events.NetworkEventType, events.ActionConnect)
		}
		synctest.Wait()
		b.fakeEngine.mu.Lock()
		for c := range b.listeners {
			if len(c) != 0 {
				t.Errorf("%d events were left unread", len(c))
			}
		}
		b.fakeEngine.mu.Unlock()
		// One look for all of them, after the consumer is done.
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := b.count("/networks"); got != 2 {
			t.Errorf("the engine was asked for its networks %d times, want twice", got)
		}
		time.Sleep(30 * time.Second) // let the consumer return
	})
}

func TestRecheck(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		for range 10 { // before there is a connection: never blocks
			b.w.Recheck()
		}
		b.startPipes()
		b.want(b.after(time.Second), 1)
		b.w.Recheck()
		b.want(b.after(time.Second), 1)
	})
}

func TestConsumerAsksForAnotherLook(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.answerWith(func(Inventory) (time.Duration, error) { return 10 * time.Second, nil })
		b.startPipes()
		b.want(b.after(time.Second), 1)
		b.want(b.after(60*time.Second), 6)
		// Too soon is not taken literally.
		b.answerWith(func(Inventory) (time.Duration, error) { return 1, nil })
		b.after(10 * time.Second)
		b.want(b.after(DefaultDebounce*100), 100)
		// Later than usual is not taken at all.
		b.answerWith(func(Inventory) (time.Duration, error) { return time.Hour, nil })
		b.after(time.Second)
		b.want(b.after(10*time.Minute), 10)
	})
}

func TestRefusedInventoryIsRepeated(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.answerWith(func(Inventory) (time.Duration, error) { return 0, errors.New("the store is closed") })
		b.startPipes()
		looks := b.after(30 * time.Second)
		if len(looks) < 6 || len(looks) > 40 {
			t.Errorf("got %d looks in 30 s, want a growing pause between them", len(looks))
		}
		if got := b.w.State(); got.LastError != "the store is closed" || !got.Connected {
			t.Errorf("got state %+v", got)
		}
		if got := strings.Count(b.logged.String(), "the store is closed"); got != 1 {
			t.Errorf("logged %d times, want once:\n%s", got, b.logged)
		}
		b.answerWith(nil)
		b.after(6 * time.Second)
		if got := b.w.State().LastError; got != "" {
			t.Errorf("got %q after the consumer recovered", got)
		}
		// The next refusal is again the first.
		refused := false
		b.answerWith(func(Inventory) (time.Duration, error) {
			if refused {
				return 0, nil
			}
			refused = true
			return 0, errors.New("the store is busy")
		})
		b.w.Recheck()
		b.want(b.after(DefaultDebounce+2*DefaultRetryMin), 2)
	})
}

func TestNamesAreLearned(t *testing.T) {
	id := strings.Repeat("ab", 32)
	inBubble(t, Config{Plugin: id}, func(b *bench) {
		b.set("n1", oneContainer)
		n := b.networks["n1"]
		n.ID, n.IPAM.Driver = "n2", "ringlet:latest"
		b.networks["n2"] = n
		b.startPipes()
		b.want(b.after(20*time.Second), 0)
		if got := b.w.State().LastError; !strings.Contains(got, "does not know this plugin") {
			t.Errorf("got error %q", got)
		}
		if b.blinds.Load() == 0 {
			t.Error("nobody was told that this engine is another one")
		}
		b.install(&types.Plugin{ID: id, Name: "ringlet:latest"})
		looks := b.after(6 * time.Second)
		b.want(looks, 1)
		if got := looks[0].Networks; len(got) != 1 || got[0].ID != "n2" {
			t.Errorf("got networks %+v, want n2 alone", got)
		}
		if got, want := b.w.State().Names, []string{"ringlet:latest"}; !slices.Equal(got, want) {
			t.Errorf("got names %q, want %q", got, want)
		}
	})
}

func TestNoSocket(t *testing.T) {
	w, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Recheck()
	if err := w.Run(ctx, nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if got := w.State(); got.Connected || got.LastError != noSocket {
		t.Errorf("got state %+v", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Socket: "unix:///" + strings.Repeat("x", 120), Interval: -1, RetryMin: time.Hour, RetryMax: time.Minute})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"absolute path", "at most 107", "no network could be recognised", "interval -1ns is negative", "below the shortest"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if _, err := New(Config{Socket: "/run/docker.sock", Names: []string{"ringlet"}, RetryMin: time.Minute}); err != nil {
		t.Errorf("a long shortest pause alone is refused: %v", err)
	}
}
