package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/plugintest"
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
	plugintest.Eventually(t, "the first host has a cluster", func() bool { return a.status().State == ipam.Alone })
	data := t.TempDir()
	b := startWhole(t, data, append(common, "RINGLET_NAME=host-b", "RINGLET_BIND="+at[1], "RINGLET_JOIN="+at[0])...)
	member := func(p *wholeProcess) bool {
		st, ok := p.looks()
		return ok && st.State == ipam.Ready && len(st.Peers) == 2
	}
	plugintest.Eventually(t, "both are members", func() bool { return member(a) && member(b) })
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
	plugintest.Eventually(t, "it has left", func() bool { return b.status().State == ipam.Left })
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
	plugintest.Eventually(t, "it is a member again", func() bool { return member(b) && b.status().Self.ID != former })
	if out := b.network(); out["PoolID"] == nil { // on the connection that was open all the time
		t.Errorf("a network gets %v", out)
	}
	plugintest.Eventually(t, "its client has its address again", func() bool {
		var held []ipam.AddressStatus
		answers(t, b.local, "http://ringlet/v1/addresses?for=printer", &held)
		return len(held) == 1 && held[0].Address == client.Address
	})
	st := b.status()
	note, found := plugintest.Find(st.Problems, "started-over")
	if !found || note.Level != string(ipam.Fine) || !strings.Contains(note.Text, got.Kept) {
		t.Errorf("status notes %+v", st.Problems)
	}
	if _, found := plugintest.Find(st.Problems, "not-claimed"); found {
		t.Errorf("status says %+v", st.Problems)
	}
	if err := os.Remove(filepath.Join(data, got.Kept)); err != nil {
		t.Error(err)
	}
	if note, found := plugintest.Find(b.status().Problems, "started-over"); found {
		t.Errorf("its former database is removed, and status still notes %+v", note)
	}
	if !strings.Contains(note.Next, "to end this note, remove "+got.Kept+" from the plugin's data") { // whoever does that sees it end
		t.Errorf("status notes %+v", note)
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
	plugintest.Eventually(t, "the new peer's journal has who asked for it", audited)

	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	if err := persist.CheckFile(filepath.Join(data, databaseName)); err != nil {
		t.Error(err)
	}
	// What it is told about founding clusters counts for nothing, also later.
	again := startWhole(t, data, "RINGLET_INSECURE=true", "RINGLET_ADVERTISE=127.0.0.1", "RINGLET_NAME=host-b", "RINGLET_BIND="+at[1], "RINGLET_BOOTSTRAP=1")
	plugintest.Eventually(t, "it is a member still", func() bool { return member(again) })
	if id := again.status().Self.ID; id != st.Self.ID {
		t.Errorf("it is %s, was %s", id, st.Self.ID)
	}
}

// Where no new database can be made, the old one stays in use, and the host says so.
func TestRejoinThatFails(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startWhole(t, data, "RINGLET_TIMEOUT=20s")
	plugintest.Eventually(t, "it serves", p.serves)
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(data, databaseName)
	mark(t, database)
	p = startWhole(t, data, "RINGLET_TIMEOUT=20s")
	plugintest.Eventually(t, "it is suspended", func() bool { return p.status().State == ipam.Suspended })
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
	plugintest.Eventually(t, "it is suspended as before", func() bool {
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
	plugintest.Eventually(t, "it is a new peer that looks for a cluster", func() bool {
		st, ok := p.looks()
		return ok && st.State == ipam.Joining && st.Self.ID != former
	})
}

// mark writes down in a database that it is an old one.
func mark(t *testing.T, database string) {
	t.Helper()
	s, err := persist.Open(plugintest.Config(database))
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

// An image has the plugin with a database in which there is nothing. Each machine that is made from it begins as a peer of its own,
// without a word of an operator; one whose database has something is suspended, as data that was moved is.
func TestCloneOfAnImageBegins(t *testing.T) {
	t.Parallel()
	image := t.TempDir()
	p := startWhole(t, image)
	plugintest.Eventually(t, "it serves", p.serves)
	self := p.status().Self.ID
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	clone := func(more ...string) *wholeProcess {
		t.Helper()
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(image)); err != nil { // in files of other numbers, as on another machine
			t.Fatal(err)
		}
		return startWhole(t, dir, more...)
	}
	ids := map[string]bool{self: true}
	at := freePorts(t, 2)
	common := []string{"RINGLET_INSECURE=true", "RINGLET_ADVERTISE=127.0.0.1", "RINGLET_TIMEOUT=20s"}
	for i, join := range []string{"", at[0]} {
		p := clone(append(common, fmt.Sprintf("RINGLET_NAME=clone-%d", i), "RINGLET_BIND="+at[i], "RINGLET_JOIN="+join)...)
		plugintest.Eventually(t, "the clone is in a cluster", func() bool { st, ok := p.looks(); return ok && len(st.Peers) == i+1 && p.serves() })
		st := p.status()
		if ids[st.Self.ID] {
			t.Errorf("clone %d has the ID of another: %s", i, st.Self.ID)
		}
		ids[st.Self.ID] = true
	}
	p = startWhole(t, image)
	plugintest.Eventually(t, "it serves", p.serves)
	if got := p.status().Self.ID; got != self {
		t.Errorf("the machine of the image was %s and is %s", self, got)
	}
	if got := p.network(); got["PoolID"] == nil {
		t.Fatalf("a network gets %v", got)
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	p = clone()
	plugintest.Eventually(t, "it is suspended", func() bool { st, ok := p.looks(); return ok && st.State == ipam.Suspended && st.Self.ID == self })
}
