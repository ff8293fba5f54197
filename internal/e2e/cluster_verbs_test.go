package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	verbsSubnet   = "10.57.0.0/24"
	verbsExcluded = "10.57.0.200"
	verbsKept     = "10.57.0.210"
	verbsMAC      = "02:aa:bb:cc:dd:57"
	verbsToken    = "a-token-that-nobody-may-read"
)

// verbs has an operator use on hosts that run what he has besides the network's life: what is decided on one host is so on
// all, and what he is told is what there is.
func (c *Cluster) verbs() {
	c.t.Helper()
	for _, e := range c.Engines {
		makeNetwork(e, "verbs", verbsSubnet)
	}
	c.excludes()
	c.reserves()
	c.watches()
	c.collects()
	c.diagnoses()
}

// tell runs a command of ringlet and checks that it ends with the exit code and that what it prints has all of wants.
func tell(e *Engine, code int, args []string, wants ...string) string {
	e.t.Helper()
	out, err := e.TryRinglet(args...)
	if ExitCode(err) != code {
		e.t.Errorf("ringlet %s: exit code %d, want %d: %v\n%s", strings.Join(args, " "), ExitCode(err), code, err, out)
	}
	for _, want := range wants {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			e.t.Errorf("ringlet %s does not say %q:\n%s", strings.Join(args, " "), want, out)
		}
	}
	return out
}

// excludes takes an address from everybody on all hosts, and gives it back.
func (c *Cluster) excludes() {
	t := c.t
	t.Helper()
	a, b, last := c.Engines[0], c.Engines[1], c.Engines[2]
	printers := verbsExcluded + "-10.57.0.203"
	tell(a, 0, []string{"exclude", "add", printers, "--note", "the printers"})
	for _, e := range c.Engines {
		Eventually(t, readyLimit, "it is known on "+e.Name, func() bool {
			out, err := e.TryRinglet("exclude", "ls")
			return err == nil && strings.Contains(out, "the printers")
		})
		_, err := e.TryDocker("run", "--rm", "--network", "verbs", "--ip", verbsExcluded, Demo)
		refused(t, err, "address "+verbsExcluded, "the printers")
		tell(e, 0, []string{"explain", verbsExcluded}, "the printers", "refused")
	}
	tell(b, 0, []string{"exclude", "rm", printers})
	last.Docker("run", "--detach", "--name", "printer", "--network", "verbs", "--ip", verbsExcluded, Demo)
	same(last, "with what was excluded")
	last.named("printer", verbsExcluded)
	tell(last, 0, []string{"explain", verbsExcluded}, "container printer", last.Name)
	out := tell(a, 3, []string{"exclude", "add", printers, "--note", "the printers"}, "container printer", last.Name)
	if got := sameAddress(last, "verbs", "printer"); got.String() != verbsExcluded {
		t.Errorf("the container has %v after the address was excluded:\n%s", got, out)
	}
}

// reserves keeps an address for a container by its MAC: it has it on whatever host it starts, and nobody else.
func (c *Cluster) reserves() {
	t := c.t
	t.Helper()
	a := c.Engines[0]
	tell(a, 0, []string{"reserve", "add", verbsKept, "--for", verbsMAC})
	for _, e := range c.Engines[1:] {
		Eventually(t, readyLimit, "it is known on "+e.Name, func() bool {
			out, err := e.TryRinglet("reserve", "ls")
			return err == nil && strings.Contains(out, verbsMAC)
		})
		_, err := e.TryDocker("run", "--rm", "--network", "verbs", "--ip", verbsKept, Demo)
		refused(t, err, "address "+verbsKept, verbsMAC)
		e.withMAC("kept", "verbs", verbsMAC)
		if got := sameAddress(e, "verbs", "kept"); got.String() != verbsKept {
			t.Errorf("the container on %s has %v, and %s is kept for it", e.Name, got, verbsKept)
		}
		same(e, "with what is kept")
		tell(e, 0, []string{"explain", verbsKept}, "container kept", verbsMAC)
		e.Docker("rm", "--force", "kept")
	}
}

// watches follows the events of a host while a container comes and goes, and asks afterwards who it was.
func (c *Cluster) watches() {
	t := c.t
	t.Helper()
	e := c.Engines[1]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := newLog()
	follow := e.Command(ctx, Built(t, "ringlet"), "events", "--follow", "--kind", "granted,freed", "-o", "json")
	follow.Stdout = log
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = follow.Wait() // killed
	}()
	event := func(kind, address string) {
		t.Helper()
		if _, err := log.Wait(ctx, 0, time.Minute, func(l Line) bool {
			var said struct{ Kind, Address string }
			return json.Unmarshal([]byte(l.Raw), &said) == nil && said.Kind == kind && said.Address == address
		}); err != nil {
			t.Errorf("no event says that %s was %s: %v", address, kind, err)
		}
	}
	address := runDemo(e, "verbs", "passer-by").String()
	event("granted", address)
	same(e, "with a passer-by")
	e.named("passer-by", address)
	then := e.Run("date", "--utc", "+%Y-%m-%dT%H:%M:%S.%NZ")
	e.Docker("rm", "--force", "passer-by")
	event("freed", address)
	tell(e, 0, []string{"who", address, "--at", then}, address, "passer-by")
	tell(e, 0, []string{"who", address}, "passer-by")
}

// collects finds an address whose release was never heard, and frees it by the report.
func (c *Cluster) collects() {
	t := c.t
	t.Helper()
	e := c.Engines[2]
	leak := runDemo(e, "verbs", "leak").String()
	same(e, "so that the holder's name is known")
	e.Docker("plugin", "disable", "--force", Plugin)
	e.TryDocker("kill", "leak") // the engine may say that it could not release
	e.Docker("plugin", "enable", Plugin)
	report := filepath.Join(e.Dir(), "report.json")
	Eventually(t, readyLimit, "the leak is reported", func() bool {
		out, err := e.TryRinglet("check", "-o", "json")
		e.write(report, out)
		return ExitCode(err) == 3 && strings.Contains(out, `"`+leak+`"`) && strings.Contains(out, "no-endpoint")
	})
	tell(e, 3, []string{"gc", "--from", report, "--dry-run"}, leak, "kept")
	Eventually(t, mended, "the leak is freed", func() bool {
		out, err := e.TryRinglet("gc", "--from", report)
		return err == nil && strings.Contains(out, leak) && strings.Contains(out, "free")
	})
	same(e, "after the leak was freed")
	e.Docker("run", "--detach", "--name", "leak-heir", "--network", "verbs", "--ip", leak, Demo)
}

// diagnoses has ringlet look at the host and write down all that helps, without what is secret.
func (c *Cluster) diagnoses() {
	t := c.t
	t.Helper()
	c.AwaitReady(c.Engines...)
	e := c.Engines[0]
	out, err := e.TryRinglet("doctor", "-o", "json")
	var found []struct{ Check, Level, Text string }
	if jsonErr := json.Unmarshal([]byte(out), &found); jsonErr != nil || ExitCode(err) == 1 {
		t.Fatalf("doctor: %v, %v\n%s", err, jsonErr, out)
	}
	reached := 0
	for _, f := range found {
		if f.Level == "fail" {
			t.Errorf("doctor finds on a cluster that is fine: %+v", f)
		}
		if f.Check == "ports" && f.Level == "ok" && strings.Contains(f.Text, "over TCP") {
			reached++
		}
	}
	if reached != len(c.Engines)-1 {
		t.Errorf("doctor reached %d of the other hosts:\n%s", reached, out)
	}

	file := filepath.Join(e.Dir(), "bundle.tar.gz")
	e.Ringlet("bundle", "--out", file)
	parts := untar(t, []byte(e.File(file)))
	if len(parts) < 10 {
		t.Errorf("the bundle has only %d parts", len(parts))
	}
	var all strings.Builder
	for name, text := range parts {
		all.WriteString(text)
		for _, secret := range []string{c.Key, verbsToken} {
			if strings.Contains(text, secret) {
				t.Errorf("the bundle has a secret in %s", name)
			}
		}
	}
	if !strings.Contains(all.String(), verbsSubnet) || !strings.Contains(all.String(), c.Engines[2].Name) {
		t.Error("the bundle says nothing of the pool, or of another host")
	}
}

// untar returns the files of an archive by their names.
func untar(t testing.TB, packed []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

// allLost loses the databases of all hosts while containers run. Nobody founds a cluster beside one that may be there, so
// an operator says where it begins, as status tells him. Each host takes in what its engine has, and what people had decided
// is put back from a snapshot.
func (c *Cluster) allLost() {
	t := c.t
	t.Helper()
	a := c.Engines[0]
	a.Ringlet("pool", "create", "10.58.0.0/24", "--name", "lab")
	a.Ringlet("alloc", "--pool", "lab", "--ip", "10.58.0.9", "--for", "vm-1")
	file := filepath.Join(a.Dir(), "snapshot.json")
	a.Ringlet("snapshot", "save", file)
	tell(a, 0, []string{"snapshot", "inspect", file}, "10.58.0.0/24 lab", "the printers", verbsMAC, "vm-1")
	before := map[*Engine][]netip.Addr{}
	for _, e := range c.Engines {
		before[e] = endpoints(e)
		e.Docker("plugin", "rm", "--force", Plugin)
	}
	for _, e := range c.Engines {
		e.InstallPlugin(c.SettingsAnew(e)...)
	}
	c.Await("each host says how to begin", c.Engines, func(all []PeerStatus) string {
		for _, st := range all {
			if !slices.ContainsFunc(st.Problems, func(p Problem) bool { return strings.Contains(p.Next, "set RINGLET_BOOTSTRAP=1 on one") }) {
				return fmt.Sprintf("%s has the problems %v", st.Self.Name, st.Problems)
			}
		}
		return ""
	})
	a.Docker("plugin", "disable", "--force", Plugin)
	a.Docker("plugin", "set", Plugin, "RINGLET_BOOTSTRAP=1", patient)
	a.Docker("plugin", "enable", Plugin)
	c.Await("the cluster has begun again", []*Engine{a}, func(all []PeerStatus) string {
		if all[0].Slot == 0 {
			return "it is " + all[0].State
		}
		return ""
	})
	c.crowd([]*Engine{a}, "verbs", "early", 3) // before the others have joined, and told what their containers have
	c.unique("as soon as the cluster has begun again", c.Engines...)
	now := endpoints(a)
	for _, addr := range before[a] {
		if !slices.Contains(now, addr) {
			t.Errorf("%v is not in use any more", addr)
		}
	}
	before[a] = now
	c.AwaitReady(c.Engines...)
	tell(a, 0, []string{"snapshot", "restore", file, "--dry-run"}, "10.58.0.0/24")
	if out := a.Ringlet("pool", "ls", "--all"); strings.Contains(out, "10.58.0.0/24") {
		t.Errorf("a dry run has made a pool:\n%s", out)
	}
	for range 2 { // it repeats safely
		if out, err := a.TryRinglet("snapshot", "restore", file); ExitCode(err) == 1 {
			t.Fatalf("restore: %v\n%s", err, out)
		}
	}
	tell(a, 0, []string{"pool", "ls"}, "10.58.0.0/24")
	tell(a, 0, []string{"lookup", "--for", "vm-1"}, "10.58.0.9")
	tell(a, 0, []string{"reserve", "ls"}, verbsKept, verbsMAC)
	tell(a, 0, []string{"exclude", "ls"}, "the printers")
	for _, e := range c.Engines {
		if now := endpoints(e); !slices.Equal(now, before[e]) {
			t.Errorf("containers of %s had %v and have %v", e.Name, before[e], now)
		}
	}
	c.crowd(c.Engines, "verbs", "restored", 2)
	c.union("after all databases were lost")
	_, err := c.Engines[1].TryDocker("run", "--rm", "--network", "verbs", "--ip", verbsKept, Demo)
	refused(t, err, "address "+verbsKept, verbsMAC)
}
