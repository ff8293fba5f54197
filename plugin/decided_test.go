package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/decisions"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A host without a cluster loses its database: it goes on with the pools, exclusions and reservations that operators made, and
// hands out nothing of them. The status says so, also where nothing of the database is left.
func TestDecidedOutlivesTheDatabase(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte("damaged"), 0o600) },
		"deleted": os.Remove,
	} {
		data := t.TempDir()
		p := startWhole(t, data, "RINGLET_TIMEOUT=20s")
		plugintest.Eventually(t, "it serves", p.serves)
		if got := p.network(); got["PoolID"] == nil {
			t.Fatalf("a network gets %v", got)
		}
		for path, body := range map[string]string{
			"/v1/pools":        `{"cidr":"10.60.0.0/24","name":"lab"}`,
			"/v1/reservations": `{"addresses":"10.50.0.1-10.50.0.9","note":"printers"}`,
		} {
			if code := p.post(path, body, nil); code >= http.StatusMultipleChoices {
				t.Fatalf("%s: %d", path, code)
			}
		}
		if f, err := decisions.Read(filepath.Join(data, decisions.FileName)); err != nil || f == nil || len(f.Reservations) != 1 {
			t.Fatalf("%s: the file has %+v, %v", what, f, err)
		}
		if err := p.end(); err != nil {
			t.Fatal(err)
		}
		if err := lose(filepath.Join(data, databaseName)); err != nil {
			t.Fatal(err)
		}
		p = startWhole(t, data, "RINGLET_TIMEOUT=20s")
		plugintest.Eventually(t, "it serves", p.serves)
		if got := p.network(); got["PoolID"] == nil {
			t.Fatalf("%s: a network gets %v", what, got)
		}
		if got, _ := p.address()["Address"].(string); got != "10.50.0.10/24" {
			t.Errorf("%s: a container gets %v", what, got)
		}
		st := p.status()
		told := false
		for _, problem := range st.Problems {
			told = told || problem.Code == "decisions-restored" && strings.Contains(problem.Text, decisions.FileName)
			if strings.Contains(problem.Text, "reservations are lost") {
				t.Errorf("%s: it says %+v", what, problem)
			}
		}
		var reserved []ipam.ReservationStatus // as ringlet exclude ls shows it
		if answers(t, p.local, "http://ringlet/v1/reservations", &reserved); !slices.ContainsFunc(reserved, func(r ipam.ReservationStatus) bool { return r.Kind == "excluded" && r.Note == "printers" }) {
			t.Errorf("%s: reserved is %+v", what, reserved)
		}
		if !told || len(st.Pools) != 2 || st.Pools[1].Name != "lab" {
			t.Errorf("%s: the status is %+v", what, st)
		}
		_ = p.end()
	}
}

// A host with a key has lost its database, and waits for the others of its cluster, which may have had none. The status says which
// setting ends that, and that what operators decided is not lost. With it the host goes on with that.
func TestLoneHostWithAKeyLosesItsDatabase(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	start := func(more ...string) *wholeProcess {
		t.Helper()
		return startWhole(t, data, append(more, "RINGLET_TIMEOUT=20s", "RINGLET_KEY="+testKey, "RINGLET_BIND="+freePorts(t, 1)[0])...)
	}
	p := start()
	plugintest.Eventually(t, "it serves", p.serves)
	if code := p.post("/v1/pools", `{"cidr":"10.60.0.0/24","name":"lab"}`, nil); code >= http.StatusMultipleChoices {
		t.Fatal(code)
	}
	if code := p.post("/v1/reservations", `{"addresses":"10.60.0.1-10.60.0.9","note":"printers"}`, nil); code >= http.StatusMultipleChoices {
		t.Fatal(code)
	}
	must(t, p.end())
	must(t, os.WriteFile(filepath.Join(data, databaseName), []byte("damaged"), 0o600))
	says := func(code string, parts ...string) {
		t.Helper()
		problem, found := plugintest.Find(p.status().Problems, code)
		for _, part := range parts {
			if !found || !strings.Contains(problem.Text+problem.Next, part) {
				t.Errorf("of %s it does not say %q: %+v", code, part, problem)
			}
		}
	}
	for range 2 {
		p = start()
		plugintest.Eventually(t, "it looks for others", func() bool { return p.status().State == ipam.Joining })
		says("joining", "RINGLET_JOIN is empty", "set RINGLET_BOOTSTRAP=1")
		says("database-replaced", "are read again from ringlet.decided.json if this host founds its cluster again", "set RINGLET_BOOTSTRAP=1")
		must(t, p.end())
	}
	p = start("RINGLET_BOOTSTRAP=1")
	plugintest.Eventually(t, "it serves", p.serves)
	says("database-replaced", "were read again from ringlet.decided.json")
	says("decisions-restored", "ringlet.decided.json")
	var grant admin.Grant
	if code := p.post("/v1/pools/lab/addresses", `{"for":"vm"}`, &grant); code != http.StatusCreated || grant.Address.String() != "10.60.0.10" {
		t.Errorf("a client gets %d %+v", code, grant)
	}
}
