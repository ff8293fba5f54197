//go:build marked

package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A request in which the machine panics is answered with that, once, and the process goes on from disk. The crash is
// kept; and after three of them within a minute the network between hosts is closed, which status says.
func TestMarkedRequest(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	p := startWhole(t, t.TempDir(), "RINGLET_TIMEOUT=20s", "RINGLET_INSECURE=true", "RINGLET_BIND="+free.Addr().String())
	plugintest.Eventually(t, "it serves", p.serves)
	p.network()
	held := map[any]bool{}
	for n := range 3 {
		got := p.call("RequestAddress", map[string]any{"PoolID": "ringlet1/local/10.50.0.0/24", "Options": map[string]string{
			"com.docker.network.endpoint.name": contain.Mark, "com.docker.network.endpoint.macaddress": "02:42:0a:00:00:01",
		}})
		if !strings.Contains(fmt.Sprint(got["Error"]), "panic: "+contain.Mark) {
			t.Errorf("the request is answered with %v", got)
		}
		got = p.address()
		if got["Address"] == nil || held[got["Address"]] {
			t.Errorf("after %d panics a container gets %v, others have %v", n+1, got, held)
		}
		held[got["Address"]] = true
		if _, closed := plugintest.Find(p.status().Problems, "network-closed"); closed && n < 2 {
			t.Errorf("after %d panics the network is closed", n+1)
		}
	}
	plugintest.Eventually(t, "the network is closed", func() bool {
		_, closed := plugintest.Find(p.status().Problems, "network-closed")
		return closed && p.serves()
	})
	crash, err := lastwords.ReadCrash(p.opts.Data)
	if err != nil || !strings.Contains(crash.Text, contain.Mark) || !strings.Contains(crash.Text, "node.marked") {
		t.Errorf("the crash is kept as %+v, %v", crash, err)
	}
	resp, err := p.local.Get("http://ringlet/v1/crash")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the crash is asked for, and the answer is %d", resp.StatusCode)
	}
}
