package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/admin"
)

// post sends a request to the admin socket, and returns the answer's code and body.
func (p *wholeProcess) post(path, body string, into any) int {
	p.t.Helper()
	resp, err := p.local.Post("http://ringlet"+path, "", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		p.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text.Bytes(), into); err != nil {
			p.t.Fatalf("%s: %d %s", path, resp.StatusCode, text.String())
		}
	}
	return resp.StatusCode
}

// looks returns the status, and false where the process does not answer with one.
func (p *wholeProcess) looks() (st ipam.Status, ok bool) {
	p.t.Helper()
	resp, err := p.local.Get("http://ringlet/v1/status")
	if err != nil {
		return st, false // it has just started
	}
	defer resp.Body.Close()
	return st, resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&st) == nil
}

// freePorts returns addresses of this host on which nothing listens.
func freePorts(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

const setAside = `{"set_the_database_aside":true}`

// A host that has left starts over while its process runs: it is a member of its cluster again, as another peer, with what
// its client had. The engine's connection stays, and a call that comes meanwhile is served by the new peer.
func TestRejoinInTheProcess(t *testing.T) {
	t.Parallel()
	at := freePorts(t, 2)
	common := []string{"RINGLET_INSECURE=true", "RINGLET_ADVERTISE=127.0.0.1", "RINGLET_TIMEOUT=20s", "RINGLET_REST=0s"}
	a := startWhole(t, t.TempDir(), append(common, "RINGLET_NAME=host-a", "RINGLET_BIND="+at[0])...)
	eventually(t, "the first host has a cluster", func() bool { return a.status().State == ipam.Alone })
	data := t.TempDir()
	b := startWhole(t, data, append(common, "RINGLET_NAME=host-b", "RINGLET_BIND="+at[1], "RINGLET_JOIN="+at[0])...)
	member := func(p *wholeProcess) bool {
		st, ok := p.looks()
		return ok && st.State == ipam.Ready && len(st.Peers) == 2
	}
	eventually(t, "both are members", func() bool { return member(a) && member(b) })
	if got := b.network(); got["PoolID"] == nil {
		t.Fatalf("a network gets %v", got)
	}
	var client admin.Grant
	if code := b.post("/v1/pools/10.50.0.0%2F24/addresses", `{"for":"printer"}`, &client); code != http.StatusCreated {
		t.Fatalf("a client gets %d", code)
	}
	var refused admin.Problem
	if code := b.post("/v1/self/rejoin", setAside, &refused); code != http.StatusBadRequest || refused.Code != "bad-request" {
		t.Fatalf("a member starts over: %d %+v", code, refused)
	}
	if code := b.post("/v1/self/leave", `{"force":true}`, nil); code > http.StatusAccepted {
		t.Fatalf("to leave is answered with %d", code)
	}
	eventually(t, "it has left", func() bool { return b.status().State == ipam.Left })
	former := b.status().Self.ID

	var would, got admin.Rejoining
	if code := b.post("/v1/self/rejoin", `{"dry_run":true}`, &would); code != http.StatusOK || would.Kept != "" || b.status().Self.ID != former {
		t.Fatalf("it is only asked: %d %+v", code, would)
	}
	var engine sync.WaitGroup
	defer engine.Wait()
	during := make(chan map[string]any, 1)
	engine.Go(func() { during <- b.call("GetCapabilities", nil) })
	if code := b.post("/v1/self/rejoin", setAside, &got); code != http.StatusOK {
		t.Fatalf("to start over is answered with %d %+v", code, got)
	}
	if answer := <-during; answer["RequiresRequestReplay"] != true {
		t.Errorf("the engine gets %v", answer)
	}
	claims := []admin.Claim{{Address: client.Address, Pool: "10.50.0.0/24", For: "printer"}}
	if got.Former != former || len(got.Peers) != 1 || !strings.Contains(got.Peers[0], at[0]) || !slices.Equal(got.Clients, claims) {
		t.Errorf("it carries over %+v", got)
	}
	eventually(t, "it is a member again", func() bool { return member(b) && b.status().Self.ID != former })
	if out := b.network(); out["PoolID"] == nil { // on the connection that was open all the time
		t.Errorf("a network gets %v", out)
	}
	eventually(t, "its client has its address again", func() bool {
		var held []ipam.AddressStatus
		answers(t, b.local, "http://ringlet/v1/addresses?for=printer", &held)
		return len(held) == 1 && held[0].Address == client.Address
	})
	st := b.status()
	if note, found := find(st, "started-over"); !found || note.Level != string(ipam.Fine) || !strings.Contains(note.Text, got.Kept) {
		t.Errorf("status notes %+v", st.Problems)
	}
	if _, found := find(st, "not-claimed"); found {
		t.Errorf("status says %+v", st.Problems)
	}
	if _, err := os.Stat(filepath.Join(data, got.Kept)); err != nil {
		t.Error(err)
	}
	audited := func() bool {
		var events bytes.Buffer
		resp, err := b.local.Get("http://ringlet/v1/events?follow=false&kind=asked")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = events.ReadFrom(resp.Body)
		return strings.Contains(events.String(), "rejoin set_the_database_aside=true: ok")
	}
	eventually(t, "the new peer's journal has who asked for it", audited)

	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	if err := persist.CheckFile(filepath.Join(data, databaseName)); err != nil {
		t.Error(err)
	}
	// What it is told about founding clusters counts for nothing, also later.
	again := startWhole(t, data, "RINGLET_INSECURE=true", "RINGLET_ADVERTISE=127.0.0.1", "RINGLET_NAME=host-b", "RINGLET_BIND="+at[1], "RINGLET_BOOTSTRAP=1")
	eventually(t, "it is a member still", func() bool { return member(again) })
	if id := again.status().Self.ID; id != st.Self.ID {
		t.Errorf("it is %s, was %s", id, st.Self.ID)
	}
}

// Where no new database can be made, the old one stays in use, and the host says so.
func TestRejoinThatFails(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startWhole(t, data, "RINGLET_TIMEOUT=20s")
	eventually(t, "it serves", p.serves)
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(data, databaseName)
	mark(t, database)
	p = startWhole(t, data, "RINGLET_TIMEOUT=20s")
	eventually(t, "it is suspended", func() bool { return p.status().State == ipam.Suspended })
	former := p.status().Self.ID
	if err := os.Mkdir(database+".new", 0o700); err != nil { // what nobody can remove in its place
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(database+".new", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var problem admin.Problem
	if code := p.post("/v1/self/rejoin", setAside, &problem); code != http.StatusServiceUnavailable || !strings.Contains(problem.Detail, "did not start over") {
		t.Errorf("got %d %+v", code, problem)
	}
	eventually(t, "it is suspended as before", func() bool {
		st, ok := p.looks()
		return ok && st.State == ipam.Suspended && st.Self.ID == former
	})
	if err := os.RemoveAll(database + ".new"); err != nil {
		t.Fatal(err)
	}
	var got admin.Rejoining
	if code := p.post("/v1/self/rejoin", setAside, &got); code != http.StatusOK || got.Kept == "" {
		t.Errorf("got %d %+v", code, got)
	}
	eventually(t, "it is a new peer that looks for a cluster", func() bool {
		st, ok := p.looks()
		return ok && st.State == ipam.Joining && st.Self.ID != former
	})
}

// mark writes down in a database that it is an old one.
func mark(t *testing.T, database string) {
	t.Helper()
	s, err := persist.Open(databaseAt(database))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Commit(func(put func(bucket string, key, value []byte) error) error {
		return put("identity", []byte("old"), []byte("its database is an old one or a copy: it was put back"))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// claimed is a node with clients that are to be claimed again.
type claimed struct {
	mu      sync.Mutex
	state   ipam.State
	left    []ipam.ClientRequest
	refuses map[netip.Addr]error
	asked   int
	log     bytes.Buffer
}

// Write takes a line of the log.
func (c *claimed) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(line)
}

// after lets time pass, and looks.
func (c *claimed) after(d time.Duration, look func()) {
	time.Sleep(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	look()
}

func (c *claimed) Unclaimed(context.Context) ([]ipam.ClientRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.left), nil
}

func (c *claimed) Snapshot(context.Context) (ipam.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ipam.Status{State: c.state}, nil
}

func (c *claimed) Client(_ context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if err := c.refuses[r.Address]; err != nil {
		return ipam.AddressGrant{}, err
	}
	c.left = slices.DeleteFunc(c.left, func(q ipam.ClientRequest) bool { return q == r })
	return ipam.AddressGrant{}, nil
}

// Clients are claimed again once the host hands out addresses. What another has by now is a problem of the status and a
// line of the log, until it can be had.
func TestClaims(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &claimed{state: ipam.Joining, refuses: map[netip.Addr]error{}}
		for i := range 6 {
			n.left = append(n.left, ipam.ClientRequest{Pool: "10.50.0.0/24", Address: netip.AddrFrom4([4]byte{10, 50, 0, byte(i)}), ID: fmt.Sprint("shim-", i)})
		}
		for i := 1; i < 6; i++ {
			n.refuses[n.left[i].Address] = &ipam.Error{Kind: ipam.ErrAddressInUse, Text: fmt.Sprintf("host-b has %d", i)}
		}
		c := newClaims(n, slog.New(slog.NewTextHandler(n, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		n.after(time.Minute, func() {
			if _, wrong := c.fault.problem(); wrong || n.asked > 0 {
				t.Errorf("it hands out nothing, and was asked %d times", n.asked)
			}
			n.state = ipam.Ready
		})
		n.after(5*time.Minute, func() {
			p, wrong := c.fault.problem()
			if want := "10.50.0.1 for shim-1 (host-b has 1); 10.50.0.2 for shim-2 (host-b has 2); 10.50.0.3 for shim-3 (host-b has 3); and 2 more"; !wrong || p.Code != "not-claimed" || p.Level != string(ipam.Degraded) || !strings.HasSuffix(p.Text, want) {
				t.Errorf("%t %+v", wrong, p)
			}
			if lines := strings.Count(n.log.String(), "not claimed again"); lines != 5 || strings.Count(n.log.String(), "client claimed again") != 1 {
				t.Errorf("the log has %d lines: %s", lines, n.log.String())
			}
			clear(n.refuses)
		})
		asked := 0
		n.after(time.Minute, func() {
			if _, wrong := c.fault.problem(); wrong || len(n.left) > 0 {
				t.Errorf("%v are to be claimed", n.left)
			}
			asked = n.asked
		})
		n.after(time.Hour, func() {
			if n.asked != asked {
				t.Error("it is asked for nothing")
			}
		})
		cancel()
		synctest.Wait()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
