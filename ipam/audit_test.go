package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// leaking is a host with a container that the engine has, and two that it does
// not have by its first list.
func leaking(t *testing.T) (*machinetest.Host, ipam.Network) {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	h.Call(&ipam.Inventory{})
	n := network(t, h, "10.50.0.0/28")
	for _, name := range []string{"web", "job", "old"} {
		run(t, h, n, name)
	}
	h.Now = h.Now.Add(time.Minute)
	h.Call(listOf(h, n))
	return h, n
}

// listOf is an inventory that has web alone.
func listOf(h *machinetest.Host, n ipam.Network) *ipam.Inventory {
	return inventory(h, n, ipam.InventoryEndpoint{Address: address("10.50.0.1"), Container: strings.Repeat("4f3a2b1c", 8), Name: "web"})
}

func outcomes(t *testing.T, r ipam.Reply) string {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var out []string
	for _, c := range r.Collected {
		out = append(out, fmt.Sprintf("%v %s: %s", c.Address, c.Outcome, c.Why))
	}
	return strings.Join(out, "\n")
}

func TestAudit(t *testing.T) {
	h, n := leaking(t)
	a := h.Machine().Audit(h.Now)
	if a.Verdict != ipam.Degraded || a.Held != 3 || a.Listed != 1 || len(a.Findings) != 2 || a.Findings[0].Name != "job" || a.Findings[0].Missing == nil {
		t.Fatalf("%+v", a)
	}
	h.Now = h.Now.Add(time.Minute)
	h.Call(inventory(h, n, ipam.InventoryEndpoint{Address: address("10.50.0.0"), Container: strings.Repeat("4f3a2b1c", 8), Name: "web"}))
	if a := h.Machine().Audit(h.Now); len(a.Findings) != 2 || a.Findings[0].Code != ipam.FoundConflict || a.Findings[1].Name != "web" {
		t.Errorf("%+v", a.Findings)
	}
	h = machinetest.NewHost(t, ipam.Config{})
	run(t, h, network(t, h, "10.50.0.0/28"), "web")
	if a := h.Machine().Audit(h.Now); a.Verdict != ipam.Fine || a.Looked != nil || a.Held != 1 || a.Listed != 0 {
		t.Errorf("%+v", a)
	}
}

// One missing list frees nothing, whatever the report says.
func TestCollect(t *testing.T) {
	h, n := leaking(t)
	report := h.Machine().Audit(h.Now).Findings
	collect := func(dryRun bool) string {
		return outcomes(t, h.Call(&ipam.CollectRequest{Findings: report, DryRun: dryRun}))
	}
	if got := collect(false); strings.Count(got, "kept: the engine's lists have lacked it for less than") != 2 {
		t.Errorf("after one list:\n%s", got)
	}
	h.Now = h.Now.Add(5 * time.Second)
	h.Call(listOf(h, n))
	if got := collect(false); strings.Count(got, "kept: the engine's lists have lacked it for less than") != 2 {
		t.Errorf("after two that are 5 seconds apart:\n%s", got)
	}
	// What another has since, and what is back, stays.
	release(h, n, address("10.50.0.2"))
	if err := claim(h, n, "10.50.0.2", "new"); err != nil {
		t.Fatal(err)
	}
	h.Call(inventory(h, n, ipam.InventoryEndpoint{Address: address("10.50.0.3"), Container: strings.Repeat("4f3a2b1c", 8), Name: "old"}))
	want := "10.50.0.2 kept: another holder has it since that report: container new on host-a since 2026-11-21 09:01 UTC\n10.50.0.3 kept: another holder has it"
	if got := collect(false); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	release(h, n, address("10.50.0.2"))
	if got := collect(false); !strings.HasPrefix(got, "10.50.0.2 free: it is no longer in use") {
		t.Errorf("got\n%s", got)
	}
	other := report[0]
	other.Pool = prefix("10.99.0.0/24")
	conflict := report[0]
	conflict.Code = ipam.FoundConflict
	if got := outcomes(t, h.Call(&ipam.CollectRequest{Findings: []ipam.Finding{other, conflict}})); got != "10.50.0.2 free: there is no such pool any more\n10.50.0.2 kept: only addresses without an endpoint are freed, not conflict" {
		t.Errorf("got\n%s", got)
	}
	h.CheckDisk()
}

// What a list frees by itself is free when somebody comes with the report.
func TestCollectComesSecond(t *testing.T) {
	h, n := leaking(t)
	report := h.Machine().Audit(h.Now).Findings
	h.Now = h.Now.Add(time.Minute)
	h.Call(listOf(h, n))
	if got := outcomes(t, h.Call(&ipam.CollectRequest{Findings: report})); strings.Count(got, "free: it is no longer in use") != 2 {
		t.Errorf("got\n%s", got)
	}
}

// The database restores what runs, and any record that is missing from it, or
// that is another, is told.
func TestDifferences(t *testing.T) {
	h, n := leaking(t)
	release(h, n, address("10.50.0.2"))
	h.Call(keep("10.50.0.2", "db"))
	h.Call(exclude("10.50.0.4", "10.50.0.6"))
	compare := func(disk machinetest.Disk) []string {
		m, err := ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, disk.Load)
		if err != nil {
			return []string{err.Error()}
		}
		return h.Machine().Differences(m)
	}
	if got := compare(h.Disk); len(got) > 0 {
		t.Fatalf("the database differs: %q", got)
	}
	told := 0
	for missing := range h.Disk {
		less := machinetest.Disk{}
		for k, v := range h.Disk {
			if k != missing {
				less[k] = v
			}
		}
		switch got := compare(less); {
		case len(got) > 0:
			told++
		case strings.HasPrefix(missing, "holding") || strings.HasPrefix(missing, "network"):
			t.Errorf("without %q nothing differs", missing)
		}
	}
	if told < 5 {
		t.Errorf("only %d differences were told", told)
	}
	more := machinetest.Disk{}
	for k, v := range h.Disk {
		more[k] = slices.Clone(v)
		if strings.HasPrefix(k, "holding") {
			more[k][4] ^= 1 // since when
		}
	}
	if got := compare(more); len(got) != 3 {
		t.Errorf("three records differ, told were %q", got)
	}
}
