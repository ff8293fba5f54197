package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
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
		p := startWhole(t, data)
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
		p = startWhole(t, data)
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
