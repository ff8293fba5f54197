package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A disk that fills while addresses are handed out stops that, once a write fails, and nothing else: what the
// containers have stays, can be freed, and is asked for again by an engine that starts. With room again it goes on.
func TestDiskThatFills(t *testing.T) {
	t.Parallel()
	data := smallDisk(t)
	p := startWhole(t, data, "RINGLET_TIMEOUT=20s")
	plugintest.Eventually(t, "it serves", p.serves)
	plugintest.Eventually(t, "room is kept", func() bool { return dockerd.HasSocket(filepath.Join(data, databaseName+".ballast")) })
	if _, found := plugintest.Find(p.status().Problems, "disk-low"); !found {
		t.Errorf("24 MiB are little, and status says %+v", p.status().Problems)
	}
	const pool = "ringlet1/local/10.50.0.0/16"
	p.call("RequestPool", map[string]any{"AddressSpace": "local", "Pool": "10.50.0.0/16"})
	free := fillDisk(t, data)
	var held []string
	refusal := ""
	for n := 0; refusal == ""; n++ {
		got := p.call("RequestAddress", map[string]any{"PoolID": pool, "Options": map[string]string{
			"com.docker.network.endpoint.name": strings.Repeat("x", 200) + fmt.Sprint(n), "com.docker.network.endpoint.macaddress": fmt.Sprintf("02:42:%02x:%02x:%02x:%02x", n>>24, n>>16&255, n>>8&255, n&255),
		}})
		if got["Error"] != nil {
			refusal = fmt.Sprint(got["Error"])
			break
		}
		held = append(held, strings.TrimSuffix(fmt.Sprint(got["Address"]), "/16"))
		if n > 60_000 {
			t.Fatal("the disk does not get full")
		}
	}
	t.Logf("%d addresses were handed out", len(held))
	if !strings.Contains(refusal, "disk is full: make room") {
		t.Errorf("a request is refused with %q", refusal)
	}
	plugintest.Eventually(t, "status says that the disk is full", func() bool {
		problem, found := plugintest.Find(p.status().Problems, "disk-full")
		return found && problem.Level == string(ipam.Failed)
	})
	if got := p.ready(); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d, want 503", got)
	}
	if got := p.call("RequestPool", map[string]any{"AddressSpace": "local", "Pool": "10.50.0.0/16"}); got["PoolID"] != pool {
		t.Errorf("a replay gets %v", got)
	}
	if got := p.call("RequestAddress", map[string]any{"PoolID": pool, "Address": held[0]}); got["Error"] != nil {
		t.Errorf("a replay gets %v", got)
	}
	count := func() (n int) {
		var list []ipam.AddressStatus
		if !answers(t, p.local, "http://ringlet/v1/addresses", &list) {
			return -1
		}
		for _, a := range list {
			if a.State == "held" {
				n++
			}
		}
		return n
	}
	// One may be held by nobody, as the commit that failed was not answered.
	if n := count(); n < len(held) || n > len(held)+1 {
		t.Errorf("%d addresses are held, want %d", n, len(held))
	}
	left := count()
	for _, a := range held[:len(held)/2] {
		if got := p.call("ReleaseAddress", map[string]any{"PoolID": pool, "Address": a}); got["Error"] != nil {
			t.Fatalf("a release gets %v", got)
		}
	}
	if n := count(); n != left-len(held)/2 {
		t.Errorf("%d addresses are held, want %d", n, left-len(held)/2)
	}
	free()
	plugintest.Eventually(t, "it hands out addresses again", func() bool {
		return p.call("RequestAddress", map[string]any{"PoolID": pool, "Options": map[string]string{"com.docker.network.endpoint.macaddress": "02:42:ff:00:00:01"}})["Error"] == nil
	})
	if _, found := plugintest.Find(p.status().Problems, "disk-full"); found {
		t.Error("there is room, and status says that the disk is full")
	}
	if _, err := os.Stat(filepath.Join(data, databaseName+".ballast")); err != nil {
		t.Error(err)
	}
}
