package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests, 0 for a new one")

// TestChaos sends 10,000 requests over real sockets: good ones, garbage, and
// ones whose connection is cut at any byte, while the backend grants, refuses,
// dawdles and panics. Afterwards the engine's and the backend's view of who
// holds what must agree: what was read as granted was not withdrawn, and what
// was neither read nor withdrawn belongs to a connection that was cut.
func TestChaos(t *testing.T) {
	const clients, requests = 8, 1250
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", s)

	backend := &fake{}
	backend.requestAddress = func(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
		switch r.MAC[5] % 16 { // the client chose what becomes of it
		case 0:
			return ipam.AddressGrant{}, &ipam.Error{Kind: ipam.ErrNoAddress, Text: "no free address"}
		case 1:
			return ipam.AddressGrant{}, errors.New("disk full")
		case 2:
			panic("no disk")
		case 3:
			if r.Name == "cut" { // it waits until its client has gone
				<-ctx.Done()
			}
		}
		return backend.grant(r), nil
	}
	d, path := newDriver(t, Config{Backend: backend, Logger: slog.New(slog.DiscardHandler)}), socketPath(t)
	stop := serveOn(t, d, path)

	var mu sync.Mutex
	read := map[string]int{} // addresses that a client has read
	var cut int
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			e := &engine{t: t, path: path, rng: rand.New(rand.NewPCG(s, uint64(i)))}
			defer e.close()
			for range requests {
				address, wasCut := e.request()
				mu.Lock()
				if address != "" {
					read[address]++
				}
				if wasCut {
					cut++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The driver still serves after all that.
	if got := mustPost(t, client(t, path), callReleasePool, removeBody); got != "{}\n" {
		t.Errorf("answered %s", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}

	withdrawn := map[ipam.Ticket]bool{}
	for _, ticket := range backend.withdrawn {
		if withdrawn[ticket] {
			t.Errorf("grant %d was withdrawn twice", ticket.Serial)
		}
		withdrawn[ticket] = true
	}
	open := 0
	for ticket, a := range backend.granted {
		switch got := read[a.String()]; {
		case got > 0 && withdrawn[ticket]:
			t.Errorf("%v was read by a client, and withdrawn", a)
		case got > 1:
			t.Errorf("%v was read %d times", a, got)
		case got == 0 && !withdrawn[ticket]:
			open++
		}
	}
	if open > cut {
		t.Errorf("%d grants were neither read nor withdrawn, and only %d connections were cut", open, cut)
	}
	if len(withdrawn) == 0 || len(read) == 0 || d.Stats().Panics == 0 || d.Stats().EmptyBodies == 0 {
		t.Errorf("%d withdrawn, %d read, %+v: too little has happened", len(withdrawn), len(read), d.Stats())
	}
	if open > 0 && backend.rechecks == 0 {
		t.Error("no look at the engine's containers")
	}
	t.Logf("%d granted, %d read, %d withdrawn, %d open, %d connections cut, %d looks; %+v",
		len(backend.granted), len(read), len(withdrawn), open, cut, backend.rechecks, d.Stats())
}

// engine is a client that does not always behave.
type engine struct {
	t    *testing.T
	path string
	rng  *rand.Rand
	conn net.Conn
	r    *bufio.Reader
}

func (e *engine) close() {
	if e.conn != nil {
		e.conn.Close()
		e.conn = nil
	}
}

// request sends one request. It returns the address that it read, and whether
// it cut the connection instead.
func (e *engine) request() (address string, cut bool) {
	if e.conn == nil {
		conn, err := net.Dial("unix", e.path)
		if err != nil {
			e.t.Error(err)
			return "", false
		}
		e.conn, e.r = conn, bufio.NewReader(conn)
	}
	method, body := e.draw()
	cut = e.rng.IntN(8) == 0
	if cut {
		method, body = callRequestAddress, e.container("cut")
	}
	raw := fmt.Sprintf("POST /IpamDriver.%s HTTP/1.1\r\nHost: \r\nContent-Length: %d\r\n\r\n%s", method, len(body), body)
	if cut && e.rng.IntN(2) == 0 {
		raw = raw[:e.rng.IntN(len(raw))]
	}
	if _, err := io.WriteString(e.conn, raw); err != nil {
		e.t.Errorf("request was not accepted: %v", err)
	}
	if cut {
		e.close()
		return "", true
	}
	w, err := http.ReadResponse(e.r, nil)
	if err != nil {
		e.t.Errorf("no answer to %s %.200s: %v", method, body, err)
		e.close()
		return "", false
	}
	defer w.Body.Close()
	var answer struct{ Error, Address string }
	if err := json.NewDecoder(w.Body).Decode(&answer); err != nil || w.StatusCode != http.StatusOK {
		e.t.Errorf("answer to %s %.200s: %d, %v", method, body, w.StatusCode, err)
	}
	_, _ = io.Copy(io.Discard, w.Body) // for the next one on this connection
	if w.Close {
		e.close()
	}
	if answer.Address == "" {
		return "", false
	}
	ip, _, err := net.ParseCIDR(answer.Address)
	if err != nil {
		e.t.Error(err)
	}
	return ip.String(), false
}

// draw returns a request: most of them good.
func (e *engine) draw() (method, body string) {
	methods := []string{callRequestPool, callReleasePool, callRequestAddress, callReleaseAddress}
	bodies := map[string]string{callRequestPool: subnetBody, callReleasePool: removeBody, callReleaseAddress: stopBody}
	method = methods[e.rng.IntN(len(methods))]
	body = bodies[method]
	if method == callRequestAddress {
		body = e.container("web")
	}
	switch e.rng.IntN(10) {
	case 0: // garbage
		b := []byte(body)
		for range 1 + e.rng.IntN(4) {
			b[e.rng.IntN(len(b))] = byte(e.rng.Uint32())
		}
		return method, string(b)
	case 1:
		return method, body[:e.rng.IntN(len(body))]
	case 2:
		return method, ""
	case 3:
		return callCapabilities, ""
	}
	return method, body
}

// container is a container's request. The MAC tells the backend what to do.
func (e *engine) container(name string) string {
	return fmt.Sprintf(`{"PoolID":"ringlet1/local/fd00::/64","Address":"","Options":{%q:%q,%q:"02:42:00:00:00:%02x"}}`,
		optionEndpoint, name, optionMAC, e.rng.IntN(256))
}
