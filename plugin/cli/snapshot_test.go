package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
)

// A snapshot has what people have decided, and neither IDs of peers nor what
// they own; what it has is made again.
func TestSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snap.json")
	f := alone()
	cfg := Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, f))}
	saved := ringlet(t, cfg, "snapshot", "save", file)
	if saved.code != 0 {
		t.Fatalf("%+v", saved)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{f.st.Self.ID, "owner", "network address", "02:42:0a:32:00:02"} {
		if strings.Contains(string(text), id) {
			t.Errorf("the snapshot has %s", id)
		}
	}
	golden.Check(t, "snapshot.json", text)
	inspected := ringlet(t, Config{columns: 80}, "snapshot", "inspect", file)
	if "saved "+file+"\n"+inspected.out != saved.out {
		t.Errorf("saved %q, inspected %q", saved.out, inspected.out)
	}
	golden.Check(t, "snapshot.txt", []byte(inspected.out))

	asks := []string{"status", `reservations ""`, `addresses ""`}
	for _, flag := range []string{"--dry-run", "--dry-run=false"} {
		f.calls = nil
		if got := ringlet(t, cfg, "snapshot", "restore", file, flag); got.code != 0 || strings.Count(got.out, "exists already: ") != 9 || !slices.Equal(f.calls, asks) {
			t.Errorf("%+v, asked for %q", got, f.calls)
		}
	}
	// What is there lacks a piece, or is kept for another one.
	f.reservations = []ipam.ReservationStatus{
		{First: ip("10.50.0.15"), Last: ip("10.50.0.19"), Kind: "excluded", Note: "printers and the coffee machine\x1b"},
		{First: ip("10.50.0.10"), Last: ip("10.50.0.13"), Kind: "excluded", Note: "printers and the coffee machine\x1b"},
		{First: ip("10.50.0.20"), Last: ip("10.50.0.20"), Kind: "kept for a name", Note: "web"},
	}
	if got := ringlet(t, cfg, "snapshot", "restore", file, "--dry-run"); strings.Count(got.out, "would make: ") != 4 {
		t.Errorf("%+v", got)
	}
	f.reservations = append(f.reservations, ipam.ReservationStatus{First: ip("10.50.0.14"), Last: ip("10.50.0.14"), Kind: "excluded", Note: "printers and the coffee machine\x1b"})
	if got := ringlet(t, cfg, "snapshot", "restore", file, "--dry-run"); strings.Count(got.out, "would make: ") != 3 {
		t.Errorf("%+v", got)
	}
	f.calls, f.st.Pools, f.reservations, f.list = nil, nil, nil, nil
	if got := ringlet(t, cfg, "snapshot", "restore", file, "--dry-run"); got.code != 0 || strings.Count(got.out, "would make: ") != 9 || !slices.Equal(f.calls, asks) {
		t.Errorf("%+v, asked for %q", got, f.calls)
	}
	f.calls = nil
	got := ringlet(t, cfg, "snapshot", "restore", file)
	want := []string{
		asks[0], asks[1], asks[2],
		`create 10.50.0.0/24 "lab"`, `create 10.51.0.0/24 "spare"`, `create fd00:50::/64 ""`,
		`reserve "" 10.50.0.10-10.50.0.19 excluded "printers and the coffee machine\x1b"`, `reserve "" 10.50.0.20-10.50.0.20 kept for a name "db"`,
		`reserve "" 10.50.0.21-10.50.0.21 kept for a name "02:42:0a:32:00:15"`, `reserve "" fd00:50:0:0:8000::-fd00:50::ffff:ffff:ffff:fffe excluded ""`,
		`client 10.50.0.0/24 10.50.0.3 printer-3`, "client 10.50.0.0/24 10.50.0.4 evil\x1b[2J\nname",
	}
	// Some of the ranges is in use, as with any range of the fixture.
	if diff := cmp.Diff(want, f.calls); got.code != exitDegraded || diff != "" {
		t.Errorf("code %d, said %s (-want +got):\n%s", got.code, got.err, diff)
	}
}

// What is another host's is told, and what cannot be made does not keep the
// rest from being made.
func TestSnapshotElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snap.json")
	ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, alone()))}, "snapshot", "save", file)
	f := alone()
	f.st.Self.Name = "host-b"
	got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "restore", file)
	if got.code != exitDegraded || strings.Count(got.out, "not made: ") != 2 || !strings.Contains(got.out, "only host-a can restore it") {
		t.Errorf("%+v", got)
	}
	f = alone()
	f.reservations = nil
	f.reserving = &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: "there is no such pool"}
	got = ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "restore", file)
	if got.code != exitDegraded || strings.Count(got.out, "not made: ") != 4 || strings.Count(got.out, "exists already: ") != 5 {
		t.Errorf("%+v", got)
	}
}

// A peer that is in no cluster knows nothing, and does not replace what is left of one.
func TestSnapshotOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snap.json")
	before := []byte("all that is left")
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	for state, cluster := range map[ipam.State]string{ipam.Joining: strings.Repeat("0", 32), ipam.Forming: strings.Repeat("0", 32), ipam.Left: "00112233445566778899aabbccddeeff"} {
		f := alone()
		f.st.State, f.st.Cluster = state, cluster
		got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "save", file)
		if text, err := os.ReadFile(file); got.code != exitFailed || !strings.Contains(got.err, "in no cluster") || err != nil || !bytes.Equal(text, before) {
			t.Errorf("%s: %+v, %v, %s", state, got, err, text)
		}
	}
}

func TestNoSnapshot(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "other": "{}", "later": `{"format":2}`} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"inspect", "restore"} {
			if got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", "none")}, "snapshot", verb, file); got.code != exitFailed || got.err == "" {
				t.Errorf("%s %s: %+v", verb, name, got)
			}
		}
	}
	f := alone()
	if got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "save", filepath.Join(dir, "no", "dir")); got.code != exitFailed {
		t.Errorf("%+v", got)
	}
}

// What of a snapshot cannot be kept back, as somebody has it, or this release knows no
// such kind, was not made.
func TestRestoreOfWhatIsInUse(t *testing.T) {
	for _, tt := range []struct{ kind, want string }{
		{"excluded", "not made: 10.50.0.2 of it: it is held by container web"},
		{"lent to somebody", "not made: 10.50.0.1-10.50.0.7 lent to somebody x: this release knows no such kind"},
	} {
		file := filepath.Join(t.TempDir(), "snap.json")
		text := `{"format":1,"host":"host-a","reservations":[{"pool":"10.50.0.0/24","first":"10.50.0.1","last":"10.50.0.7","kind":"` + tt.kind + `","note":"x"}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := alone()
		f.reservations = nil
		got := ringlet(t, Config{columns: 200, Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "restore", file)
		if got.code != exitDegraded || !strings.Contains(got.out, tt.want) {
			t.Errorf("%s: %+v", tt.kind, got)
		}
		if tt.kind != "excluded" && slices.ContainsFunc(f.calls, func(c string) bool { return strings.HasPrefix(c, "reserve ") }) {
			t.Errorf("%s: asked %q", tt.kind, f.calls)
		}
	}
}

// A pool that has a name, or in which somebody has decided something, stays without a network,
// whatever it was made for: it is restored, and nothing else is said of it.
func TestSnapshotOfNetworksPools(t *testing.T) {
	const passing, plain = "pool fd00:50::/64, made for a network, not restored\n", "pool fd00:50::/64\n"
	for _, tt := range []struct {
		origin, name, says, makes string
		decided                   bool
	}{
		{"choice", "", passing, "", false},
		{"network", "", passing, "", false},
		{"operator", "", plain, "would make: pool fd00:50::/64\n", false},
		{"network", "", plain, "would make: pool fd00:50::/64\n", true},
		{"choice", "web", "pool fd00:50::/64 web\n", "would make: pool fd00:50::/64 web\n", false},
	} {
		file := filepath.Join(t.TempDir(), "snap.json")
		f := alone()
		p := &f.st.Pools[2]
		p.Name, p.Origin, p.Chosen = tt.name, tt.origin, tt.origin == "choice"
		if !tt.decided {
			f.reservations = f.reservations[:len(f.reservations)-1]
		}
		cfg := Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, f))}
		if got := ringlet(t, cfg, "snapshot", "save", file); !strings.Contains(got.out, tt.says) {
			t.Errorf("%q: %+v", tt.name, got)
		}
		f.st.Pools = f.st.Pools[:2]
		if got := ringlet(t, cfg, "snapshot", "restore", file, "--dry-run"); got.code != 0 || strings.Contains(got.out, "would make") != (tt.makes != "") || !strings.Contains(got.out, tt.makes) {
			t.Errorf("%q: %+v", tt.name, got)
		}
	}
}

// A dry run tells what a cluster with other pools would refuse.
func TestDryRunOfARestoreIntoOtherPools(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snap.json")
	ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, alone()))}, "snapshot", "save", file)
	for _, tt := range []struct {
		what string
		pool ipam.PoolStatus
		want string // of the pool 10.51.0.0/24 spare
		code int
	}{
		{"nothing like it", ipam.PoolStatus{Pool: prefix("10.52.0.0/24"), Name: "other"}, "would make: pool 10.51.0.0/24 spare\n", 0},
		{"itself", ipam.PoolStatus{Pool: prefix("10.51.0.0/24"), Name: "spare"}, "exists already: pool 10.51.0.0/24 spare\n", 0},
		{"no name yet", ipam.PoolStatus{Pool: prefix("10.51.0.0/24")}, "would make: pool 10.51.0.0/24 spare\n", 0},
		{"one that may make room", ipam.PoolStatus{Pool: prefix("10.51.0.0/16")}, "would make: pool 10.51.0.0/24 spare\n", 0},
		{"another name", ipam.PoolStatus{Pool: prefix("10.51.0.0/24"), Name: "web"}, "not made: pool 10.51.0.0/24 spare: the pool exists, and has the name web\n", exitDegraded},
		{"another pool of the name", ipam.PoolStatus{Pool: prefix("10.52.0.0/24"), Name: "spare"}, "not made: pool 10.51.0.0/24 spare: the name belongs to the pool 10.52.0.0/24\n", exitDegraded},
		{"one above it", ipam.PoolStatus{Pool: prefix("10.51.0.0/16"), Name: "web"}, "not made: pool 10.51.0.0/24 spare: it overlaps the pool 10.51.0.0/16 (web)\n", exitDegraded},
	} {
		f := alone()
		f.st.Pools[1] = tt.pool
		got := ringlet(t, Config{columns: 200, Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "restore", file, "--dry-run")
		if got.code != tt.code || !strings.Contains(got.out, tt.want) {
			t.Errorf("%s: no %q in %+v", tt.what, tt.want, got)
		}
	}
}
