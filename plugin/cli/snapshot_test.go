package cli

import (
	"os"
	"path/filepath"
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

	f.calls = nil
	if got := ringlet(t, cfg, "snapshot", "restore", file, "--dry-run"); got.code != 0 || strings.Count(got.out, "would make: ") != 8 || strings.Join(f.calls, "") != "status" {
		t.Errorf("%+v, asked for %q", got, f.calls)
	}
	f.calls = nil
	got := ringlet(t, cfg, "snapshot", "restore", file)
	want := []string{
		`create 10.50.0.0/24 "lab"`, `create 10.51.0.0/24 "spare"`,
		`reserve "" 10.50.0.10-10.50.0.19 excluded "printers and the coffee machine\x1b"`, `reserve "" 10.50.0.20-10.50.0.20 kept for a name "db"`,
		`reserve "" 10.50.0.21-10.50.0.21 kept for a name "02:42:0a:32:00:15"`, `reserve "" fd00:50:0:0:8000::-fd00:50::ffff:ffff:ffff:fffe excluded ""`,
		"status", `client 10.50.0.0/24 10.50.0.3 printer-3`, "client 10.50.0.0/24 10.50.0.4 evil\x1b[2J\nname",
	}
	if diff := cmp.Diff(want, f.calls); got.code != 0 || diff != "" {
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
	if got.code != exitDegraded || strings.Count(got.out, "not made: ") != 2 || !strings.Contains(got.out, "that is for host-a") {
		t.Errorf("%+v", got)
	}
	f = alone()
	f.reserving = &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: "there is no such pool"}
	got = ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "snapshot", "restore", file)
	if got.code != exitDegraded || strings.Count(got.out, "not made: ") != 4 || strings.Count(got.out, "\nmade: ")+1 < 3 {
		t.Errorf("%+v", got)
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
