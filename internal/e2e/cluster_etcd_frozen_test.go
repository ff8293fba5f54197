package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var frozenFor = flag.Duration("frozen", time.Minute, "how long TestClusterEtcdFrozen has etcd frozen")

// K6: while etcd is frozen, addresses come and go as fast as on a host that has no etcd set, the memory does not grow, and etcd has
// all of it soon after it goes on.
func TestClusterEtcdFrozen(t *testing.T) {
	t.Parallel()
	const each = 500 // addresses that clients have on each host at any time
	c := NewCluster(t, 2)
	store := NewETCD(t, c.Switch, etcdAt, "http", nil, nil)
	with, without := c.Engines[0], c.Engines[1]
	store.Without = []*Engine{without}
	with.InstallPlugin(append(c.Settings(with), "RINGLET_ETCD="+store.URL)...)
	without.InstallPlugin(c.Settings(without)...)
	with.ImportDemo()
	c.AwaitReady(with, without)
	with.lan("lan", lanSubnet, "--gateway", lanGateway)
	turns := []*clients{newClients(with), newClients(without)}
	for i := range each {
		for _, who := range turns {
			who.take(i)
		}
	}
	next := each
	// churn has one address come and another go on each host in turn. It returns how long that took on each in the median, how
	// often it took long, and how many commits of the two hosts took long meanwhile, as the disk did.
	churn := func(what string, d time.Duration) (medians [2]time.Duration, long [2]int, commits int) {
		t.Helper()
		var took [2][]time.Duration
		for _, who := range turns {
			commits -= who.longCommits()
		}
		for begun := time.Now(); time.Since(begun) < d; next++ {
			for i := range turns {
				i = (i + next) % 2
				begun := time.Now()
				turns[i].take(next)
				turns[i].free(next - each)
				took[i] = append(took[i], time.Since(begun))
			}
			time.Sleep(10 * time.Millisecond)
		}
		for i := range took {
			slices.Sort(took[i])
			medians[i] = took[i][len(took[i])/2]
			for _, d := range took[i] {
				if d > isLong {
					long[i]++
				}
			}
			commits += turns[i].longCommits()
		}
		fmt.Fprintf(t.Output(), "%s: an address came and another went in %v with etcd and in %v without, %d times each; the slowest took %v and %v; %d and %d took longer than %v, and %d commits longer than 100ms\n", what,
			medians[0].Round(time.Microsecond), medians[1].Round(time.Microsecond), len(took[0]), took[0][len(took[0])-1].Round(time.Millisecond), took[1][len(took[1])-1].Round(time.Millisecond),
			long[0], long[1], isLong, commits)
		return medians, long, commits
	}
	churn("etcd runs", 10*time.Second)
	store.Mirrors(directoryLimit, "after the first changes", with)
	store.Freeze()
	churn("etcd is frozen", 10*time.Second)
	var before, after [2]int
	for i, who := range turns {
		before[i] = who.memory()
	}
	medians, long, commits := churn("etcd is frozen", *frozenFor-10*time.Second)
	for i, who := range turns {
		after[i] = who.memory()
	}
	if medians[0] > medians[1]*5/4 || long[0] > long[1]+commits {
		t.Errorf("while etcd is frozen, addresses come and go in %v on the host that has it set, and in %v on the other one; %d and %d times it took longer than %v, and %d commits took long",
			medians[0], medians[1], long[0], long[1], isLong, commits)
	}
	fmt.Fprintf(t.Output(), "memory: from %d to %d KiB with etcd, from %d to %d KiB without\n", before[0]>>10, after[0]>>10, before[1]>>10, after[1]>>10)
	if grown, other := after[0]-before[0], after[1]-before[1]; grown > max(other, 0)+4<<20 {
		t.Errorf("while etcd was frozen, the memory grew by %d KiB on the host that has it set, and by %d KiB on the other one", grown>>10, other>>10)
	}
	with.hasProblem("etcd-unavailable", "does not answer within")
	begun := time.Now()
	with.Docker("run", "--detach", "--name", "late", "--network", "lan", Demo)
	fmt.Fprintf(t.Output(), "a container started in %v\n", time.Since(begun).Round(time.Millisecond))
	store.Thaw()
	store.Mirrors(30*time.Second, "etcd goes on", with, without)
	with.hasNoProblem("etcd-unavailable")
}

// isLong is from when on an address takes long: only a disk that does holds it up so.
const isLong = 250 * time.Millisecond

// longCommits returns how many commits of the plugin took longer than 100 ms so far.
func (c *clients) longCommits() int {
	c.t.Helper()
	all, short := 0.0, 0.0
	for line := range strings.Lines(c.call(http.MethodGet, "/metrics", "")) {
		if value, its := strings.CutPrefix(line, `ringlet_commit_duration_seconds_bucket{le="0.1"} `); its {
			short, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		} else if value, its := strings.CutPrefix(line, "ringlet_commit_duration_seconds_count "); its {
			all, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	if all == 0 {
		c.t.Fatal("the metrics have no commits")
	}
	return int(all - short)
}

// clients have addresses of a plugin, by its API. They belong to the goroutine of the test.
type clients struct {
	*Engine
	http http.Client
}

func newClients(e *Engine) *clients {
	socket := "/run/docker/plugins/" + e.PluginID(Plugin) + "/ringlet-admin.sock"
	return &clients{Engine: e, http: http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return e.Dial(ctx, socket)
	}}}}
}

// take has the client with that number get an address, free gives it back.
func (c *clients) take(number int) {
	c.t.Helper()
	c.call(http.MethodPost, "/v1/addresses", fmt.Sprintf(`{"for":"client-%s-%d"}`, c.Name, number))
}

func (c *clients) free(number int) {
	c.t.Helper()
	c.call(http.MethodDelete, "/v1/addresses?for="+url.QueryEscape(fmt.Sprintf("client-%s-%d", c.Name, number)), "")
}

func (c *clients) call(method, route, body string) string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.Name+route, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		c.t.Fatalf("%s %s on %s: %s %s, %v", method, route, c.Name, answer.Status, text, err)
	}
	return string(text)
}

// memory returns how many bytes of the plugin's process are in memory.
func (c *clients) memory() int {
	c.t.Helper()
	for line := range strings.Lines(c.call(http.MethodGet, "/metrics", "")) {
		if value, its := strings.CutPrefix(line, "process_resident_memory_bytes "); its {
			bytes, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return int(bytes)
		}
	}
	c.t.Fatalf("%s does not tell its memory", c.Name)
	return 0
}
