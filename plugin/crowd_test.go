package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/plugin/plugintest"
)

// crowded is the whole process, with RINGLET_HTTP open and 100,000 addresses held,
// which measures how long grants take by itself.
type crowded struct {
	t       *testing.T
	address string // of RINGLET_HTTP
	pid     int
	in      io.Writer
	out     *bufio.Reader
}

// crowdedIn names the directory in which the process itself is to serve.
const crowdedIn = "TEST_CROWDED_IN"

// startCrowded starts the process.
func startCrowded(t *testing.T, test string) *crowded {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: 100,000 addresses, and a minute of readers")
	}
	dir := t.TempDir()
	fill(t, dir, heldForBenchmarks)
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), crowdedIn+"="+dir, "RINGLET_NAME=host-a", "RINGLET_HTTP="+address, "LOG_LEVEL=warn", "RINGLET_REST=0s")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &crowded{t: t, address: address, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	plugintest.Eventually(t, "it serves, and its directory has what is held", func() bool {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		i := bytes.Index(text, []byte("\nringlet_directory_keys "))
		if i < 0 {
			return false
		}
		line, _, _ := strings.Cut(string(text[i+1:]), "\n")
		n, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
		return n >= heldForBenchmarks
	})
	return c
}

// serveCrowded is the process itself: it measures for as long as each line of its
// input says, while it serves.
func serveCrowded(dir string) {
	socket := filepath.Join(dir, "ringlet.sock")
	go func() {
		c := plugintest.Client(socket)
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			d, err := time.ParseDuration(lines.Text())
			if err != nil {
				panic(err)
			}
			var took []time.Duration
			for end := time.Now().Add(d); time.Now().Before(end); {
				begun := time.Now()
				a, err := engineCall(c, "RequestAddress", map[string]any{"PoolID": "ringlet1/local/10.0.0.0/8", "Options": map[string]string{"com.docker.network.endpoint.macaddress": "02:42:00:00:00:01"}})
				took = append(took, time.Since(begun))
				if err != nil {
					fmt.Println("failed:", err)
					os.Exit(1)
				}
				if _, err := engineCall(c, "ReleaseAddress", map[string]any{"PoolID": "ringlet1/local/10.0.0.0/8", "Address": a}); err != nil {
					fmt.Println("failed:", err)
					os.Exit(1)
				}
			}
			slices.Sort(took)
			fmt.Printf("grants %d %d %d %d\n", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		}
		os.Exit(0)
	}()
	os.Exit(program([]string{
		"ringlet", "serve", "--data", dir, "--docker-socket", "", "--socket", socket, "--admin-socket", filepath.Join(dir, "admin.sock"),
	}, run))
}

// engineCall makes a call of an engine, and returns the address of its answer.
func engineCall(c *http.Client, method string, body any) (string, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	resp, err := c.Post("http://plugin/IpamDriver."+method, "application/json", bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct{ Address, Error string }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return "", err
	}
	if out.Error != "" {
		return "", fmt.Errorf("%s: %s", method, out.Error)
	}
	a, _, _ := strings.Cut(out.Address, "/")
	return a, nil
}

// grants is how long grants took.
type grants struct {
	n             int
	p50, p99, max time.Duration
}

func (g grants) String() string {
	return fmt.Sprintf("%d grants, half within %v, 99 of 100 within %v, the longest %v", g.n, g.p50.Round(time.Microsecond), g.p99.Round(time.Microsecond), g.max.Round(time.Microsecond))
}

// measure has the process measure for a while.
func (c *crowded) measure(d time.Duration) (g grants) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, d); err != nil {
		c.t.Fatal(err)
	}
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.t.Fatalf("the process ended: %v", err)
		}
		if strings.HasPrefix(line, "failed") {
			c.t.Fatal(line)
		}
		if n, _ := fmt.Sscanf(line, "grants %d %d %d %d", &g.n, &g.p50, &g.p99, &g.max); n == 4 {
			return g
		}
	}
}

// resident is how much memory the process has now, and had at most, in MiB.
func (c *crowded) resident() (now, most int) {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			now = kib >> 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			most = kib >> 10
		}
	}
	return now, most
}

// from returns a client at one of many addresses, since one has few connections.
func (c *crowded) from(i int) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/10))}}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext}, Timeout: time.Minute}
}

// 200 clients that ask for what is largest and read nothing have the process take
// little memory, and no grant waits for them.
func TestReadersThatDoNotRead(t *testing.T) {
	if dir := os.Getenv(crowdedIn); dir != "" {
		serveCrowded(dir)
	}
	c := startCrowded(t, "TestReadersThatDoNotRead")
	rest := c.measure(2 * time.Second)
	before, _ := c.resident()
	const clients = 200
	paths := []string{"/v1/addresses?all=true", "/v1/addresses", "/sd/prometheus?containers=true&port=1", "/v1/kv/ringlet/?recursive=true&limit=5000", "/v1/kv/ringlet/?watch=true", "/v1/status", "/metrics"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/10))}}
			for ctx.Err() == nil {
				conn, err := d.DialContext(ctx, "tcp", c.address)
				if err != nil {
					continue
				}
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				for range 3 { // more than one answer, where the first fits what the kernel keeps
					fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", paths[i%len(paths)], c.address)
				}
				select {
				case <-ctx.Done():
				case <-time.After(15 * time.Second): // by then it was dropped
				}
				_ = conn.Close()
			}
		})
	}
	var beside []grants
	most := 0
	for range 10 {
		beside = append(beside, c.measure(2*time.Second))
		now, _ := c.resident()
		most = max(most, now)
	}
	cancel()
	all.Wait()
	slices.SortFunc(beside, func(a, b grants) int { return cmp.Compare(a.p99, b.p99) })
	best := beside[0] // what else runs on the machine makes others long
	t.Logf("at rest: %v; %d MiB resident", rest, before)
	t.Logf("beside %d clients that do not read: %v in the best of 10 times, %v as a rule; %d MiB resident at most", clients, best, beside[len(beside)/2], most)
	if most > 300 {
		t.Errorf("%d MiB are resident", most)
	}
	// On a machine that is busy, or has a slow disk, grants take long at rest, too.
	if limit := max(10*time.Millisecond, 3*rest.p99); best.p99 > limit {
		t.Errorf("99 of 100 grants take up to %v, want %v", best.p99, limit)
	}
}

// Loops of 64 readers on any GET keep grants to three times what they take at rest.
func TestReadersInALoop(t *testing.T) {
	if dir := os.Getenv(crowdedIn); dir != "" {
		serveCrowded(dir)
	}
	c := startCrowded(t, "TestReadersInALoop")
	const readers, rounds = 64, 10
	pool := url.PathEscape("10.0.0.0/8")
	for _, path := range []string{
		"/v1/status", "/v1/peers", "/v1/ring", "/v1/ring/table?pool=" + pool, "/v1/pools", "/v1/pools/" + pool, "/v1/addresses", "/v1/addresses?all=true", "/v1/addresses?for=container-77", "/v1/addresses?for=nobody&all=true",
		"/v1/pools/" + pool + "/addresses", "/v1/addresses/10.0.0.7", "/v1/addresses/10.0.0.7/explain", "/v1/reservations", "/v1/about", "/v1/keys", "/v1/events?follow=false",
		"/v1/kv/ringlet/?recursive=true&limit=5000", "/v1/kv/ringlet/state/ip/v1/ringlet/10.0.0.7", "/v1/journal/10.0.0.7", "/sd/prometheus?port=1", "/sd/prometheus?containers=true&port=1",
		"/metrics", "/readyz", "/livez", "/openapi.json", "/", "/nothing",
	} {
		t.Run(path, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &crowded{t: t, address: c.address, pid: c.pid, in: c.in, out: c.out}
			best, told := 1e9, ""
			for range rounds {
				rest := c.measure(time.Second)
				loop, end := context.WithCancel(ctx)
				var all sync.WaitGroup
				for i := range readers {
					all.Go(func() {
						h := c.from(i)
						defer h.CloseIdleConnections()
						for loop.Err() == nil {
							r, _ := http.NewRequestWithContext(loop, http.MethodGet, "http://"+c.address+path, nil)
							if resp, err := h.Do(r); err == nil {
								_, _ = io.Copy(io.Discard, resp.Body)
								_ = resp.Body.Close()
							}
						}
					})
				}
				g := c.measure(time.Second)
				end()
				all.Wait()
				if ratio := float64(g.p99) / float64(rest.p99); ratio < best {
					best, told = ratio, fmt.Sprintf("at rest %v; beside %d readers %v", rest, readers, g)
				}
				if best <= 3 {
					break
				}
			}
			t.Logf("%.1f times as long: %s", best, told)
			if best > 3 {
				t.Errorf("99 of 100 grants take up to %.1f times as long as at rest, want 3", best)
			}
		})
	}
	now, most := c.resident()
	t.Logf("%d MiB are resident, %d at most", now, most)
}
