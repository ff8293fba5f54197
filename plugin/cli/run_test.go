package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// What each command asks of the plugin.
func TestCommandsAskForTheRightThing(t *testing.T) {
	tests := []struct {
		args string
		want []string // calls
		out  string   // a part of what it prints
	}{
		{"status", []string{"status"}, "fine: ready, the only peer, 3 pools, 6 addresses held here and 1 gateway\n"},
		{"pool ls", []string{"status"}, "10.50.0.0/24"},
		{"status", []string{"status"}, "\nand 1 pool not used here, see --all\n"},
		{"status --all", []string{"status"}, "\npool 10.51.0.0/24 (spare): 256 addresses, 0 networks here\n"},
		{"pool create 10.50.0.0/24", []string{`create 10.50.0.0/24 ""`}, "pool 10.50.0.0/24 (lab, networks front and lab) exists already, with 256 addresses\n"},
		{"pool create fd00:50::/64", []string{`create fd00:50::/64 ""`}, "it is removed with its last network, unless you give it a name with --name\n"},
		{"pool create 10.70.0.0/24", []string{`create 10.70.0.0/24 ""`}, "created pool 10.70.0.0/24 with 256 addresses\n"},
		{"pool create fd00:70::/64 --name dev", []string{`create fd00:70::/64 "dev"`}, "created pool fd00:70::/64 (dev)"},
		{"pool rm lab", []string{"remove lab"}, "removed pool lab\n"},
		{"pool rm 10.50.0.0/24", []string{"remove 10.50.0.0/24"}, "removed pool 10.50.0.0/24\n"},
		{"ip ls", []string{`addresses ""`}, "fd00:50::2"},
		{"ip ls --freed", []string{`addresses ""`}, "last: old web"},
		{"ip ls --pool 10.50.0.0/24", []string{`addresses "10.50.0.0/24"`}, "10.50.0.1"},
		{"ip ls --pool a/../b%2Fc", nil, ""},
		{"who 10.50.0.2", []string{"who 10.50.0.2"}, "since      2m ago (2026-11-21T11:58:00Z)\n"},
		{"who ::ffff:10.50.0.2", []string{"who 10.50.0.2"}, "name       web\n"},
		{"alloc --pool lab --for printer-4", []string{"client lab invalid IP printer-4", `lookup "10.50.0.0/24" printer-4`}, "10.50.0.9\n"},
		{"alloc --pool 10.50.0.0/24 --for x --ip 10.50.0.77", []string{"client 10.50.0.0/24 10.50.0.77 x", `lookup "10.50.0.0/24" x`}, "10.50.0.77\n"},
		{"lookup --for web", []string{`lookup "" web`}, "10.50.0.2"},
		{"lookup --all --for web", []string{`lookup "" web`}, "10.50.0.2"},
		{"lookup --pool lab --for a&b=c", []string{`lookup "lab" a&b=c`, `lookup "lab" a&b=c`}, "a&b=c holds no address on this host\n"},
		{"free --for printer-3", []string{`free "" "printer-3" invalid IP`}, "freed 10.50.0.3, which printer-3 held\n"},
		{"free --for printer-3 10.50.0.9", []string{`free "" "printer-3" 10.50.0.9`}, "nothing to free: printer-3 does not hold 10.50.0.9 on this host\n"},
		{"free --for nobody", []string{`free "" "nobody" invalid IP`, `lookup "" nobody`}, "nothing to free: nobody holds no address on this host\n"},
		{"release 10.50.0.3", []string{`free "" "" 10.50.0.3`}, "freed 10.50.0.3, which printer-3 held\n"},
		{"release 10.50.0.7", []string{`free "" "" 10.50.0.7`}, "freed 10.50.0.7, which a container with MAC 02:42:0a:32:00:07 held\n"},
		{"release 10.99.0.1", []string{`free "" "" 10.99.0.1`}, "nothing to free: address 10.99.0.1 lies in no pool"},
		{"release 10.50.0.99", []string{`free "" "" 10.50.0.99`}, "nothing to free: 10.50.0.99 is not in use on this host\n"},
		{"release 10.50.0.1-10.50.0.9", []string{`addresses ""`}, "nothing to free: no address from 10.50.0.1 to 10.50.0.9 is set aside on this host\n"},
		{"release 10.50.0.4", []string{`free "" "" 10.50.0.4`}, `which evil\x1b[2J\nname held`},
		{"peers", []string{"status"}, "host-a (this peer)  active"},
		{"drain --no-wait", []string{"drain undo=false", "status"}, "draining: 2^63 addresses are left, 7 in use"},
		{"drain --undo", []string{"drain undo=true", "status"}, "this host takes ranges again\n"},
		{"drain --undo --no-wait", []string{"drain undo=true", "status"}, "this host takes ranges again\n"},
		{"leave --no-wait", []string{"leave force=false", "status"}, "leaving: "},
		{"leave --force --no-wait", []string{"leave force=true", "status"}, "leaving: "},
		{"join host-b:7950", []string{"join host-b:7950"}, "met: host-b at 10.0.0.2:7950\n"},
		{"evict host-b", []string{"evict host-b", "status"}, "evicted host-b: it has no quarantined addresses\n"},
		{"evict a/../b%2Fc", []string{"evict a/../b%2Fc", "status"}, "evicted a/../b%2Fc: "},
		{"forget host-b", []string{"forget host-b dryRun=false"}, "nothing to free: no address of host-b is quarantined\n"},
		{"forget host-b --dry-run", []string{"forget host-b dryRun=true"}, "nothing to free: "},
		{"forget host-b --dry-run=false", []string{"forget host-b dryRun=false"}, "nothing to free: "},
		{"recover --i-know-the-others-are-gone", []string{"recover", "status"}, "recovered: this host is now the only one of its cluster, which has the new ID\n  00112233445566778899aabbccddeeff\n"},
		{"rejoin --dry-run", []string{"rejoin dryRun=true"}, "would start over: the database of this host is set aside"},
		{"rejoin --dry-run --set-database-aside", []string{"rejoin dryRun=true"}, "would start over: "},
		{"rejoin --set-database-aside --no-wait", []string{"rejoin dryRun=false"}, "started over: the former database of this host is kept as\n  ringlet.db.former-20261121T120000.000Z\n"},
		{"rejoin --set-database-aside", []string{"rejoin dryRun=false", "status"}, "member: "},
		{"trust --i-know-no-other-copy-runs", []string{"trust"}, "trusted: host-a continues with its database; it is now ready\n"},
		{"check", []string{"check"}, "fine: the records are sound, and the database agrees with them\n"},
	}
	f := alone()
	socket := serve(t, f)
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			f.calls = nil
			got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", socket)}, strings.Fields(tt.args)...)
			if diff := cmp.Diff(tt.want, f.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if tt.want != nil && (got.code != 0 || got.err != "" || !strings.Contains(got.out, tt.out)) {
				t.Errorf("code %d, printed %q, said %q; want %q", got.code, got.out, got.err, tt.out)
			}
		})
	}
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name  string
		peer  *fixture
		args  string
		code  int
		quiet bool // the output has said it all
	}{
		{"fine", &fixture{st: ipam.Status{Verdict: ipam.Fine}}, "status", 0, true},
		{"degraded", &fixture{st: ipam.Status{Verdict: ipam.Degraded}}, "status", 3, true},
		{"degraded in JSON", &fixture{st: ipam.Status{Verdict: ipam.Degraded}}, "status -o json", 3, true},
		{"failed", &fixture{st: ipam.Status{Verdict: ipam.Failed}}, "status", 1, true},
		{"a verdict that is new", &fixture{st: ipam.Status{Verdict: "odd"}}, "status", 1, true},
		{"no answer", &fixture{err: errors.New("disk")}, "status", 1, false},
		{"broken", &fixture{broken: []string{"I1: 10.50.0.1 has two owners"}}, "check", 1, true},
		{"broken in JSON", &fixture{broken: []string{"I1: 10.50.0.1 has two owners"}}, "check -o json", 1, true},
		{"refused", alone(), "pool show none", 1, false},
		{"no pool", alone(), "who 10.99.0.1", 1, false},
		{"bad subnet", alone(), "pool create 10.0.0.1/24", 2, false},
		{"pool that exists", alone(), "pool create 10.50.0.0/24", 0, true},
		{"help", nil, "", 0, true},
		{"group", nil, "pool", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{}
			if tt.peer != nil {
				cfg.Getenv = env("RINGLET_SOCKET", serve(t, tt.peer))
			}
			got := ringlet(t, cfg, strings.Fields(tt.args)...)
			if got.code != tt.code || (got.err == "") != tt.quiet || tt.quiet && got.out == "" {
				t.Errorf("code %d, printed %q, said %q", got.code, got.out, got.err)
			}
		})
	}
}

// Every way to get the command line wrong, and what is said then: code 2, and
// nothing on standard output.
func TestUsageErrors(t *testing.T) {
	noPlugin := func(context.Context, string) ([]dockerd.Plugin, error) {
		t.Error("the engine was asked")
		return nil, nil
	}
	var all strings.Builder
	long := strings.Repeat("x", 256)
	for _, args := range []string{
		"stauts", "frobnicate", "pool lss", "pool frobnicate", "ip frobnicate", "ip who 10.0.0.1", "ip release 10.0.0.1", "pool status", "pool list", "pool remove lab", "pools", "allocate", "whois 10.0.0.1", "status now", "status --frob", "status -o yaml", "status -o", "pool create", "pool create a b", "pool create foo", "pool create 10.0.0.0", "pool create 10.0.0.1/24", "pool create 10.0.0.0/33",
		"pool ls x", "pool show", "who", "who me --at 2h", "who 10.50.0.777", "who fe80::1%eth0", "who 10.0.0.1/24", "alloc", "alloc --pool lab", "alloc --pool= --for x", "alloc --pool lab --for x --ip ten", "alloc --pool lab --for x --ip=",
		"alloc --pool lab --for x y", "lookup", "lookup web", "lookup 10.0.0.1", "lookup --for web lab", "ip ls lab", "ip ls 10.0.0.1", "alloc --pool lab --for x 10.0.0.1", "status 10.0.0.1", "free", "free 10.0.0.1", "free --for x y", "free --for x 10.0.0.1 10.0.0.2", "release", "release x", "check x", "version x",
		"peers x", "members", "drain host-b", "leave now", "leave --yes", "keygen 2", "genkey", "undrain",
		"join", "join host-b host-c", "meet host-b", "evict", "evict host-b host-c", "forget", "forget --dry-run", "forget host-b --yes", "forget host-b --dry-run=maybe", "recover", "recover host-b", "recover --force", "recover --i-know-the-others-are-gone=false", "rejoin host-b", "rejoin --yes", "trust", "trust host-b", "trust --force", "trust --i-know-no-other-copy-runs=false", "kick host-b",
		"completion", "completion tcsh", "ring x", "serve x", "serve --data", "help frobnicate", "help pool x",
		"pool create 10.0.0.0/24 --name bad/name", "exclude add 10.0.0.9-10.0.0.3", "reserve add 10.0.0.5-10.0.0.6 --for db", "reserve add 10.0.0.5 --for " + long, "exclude add 10.0.0.5 --note " + long, "alloc --pool lab --for " + long,
	} {
		got := ringlet(t, Config{FindPlugin: noPlugin, Serve: func(context.Context, ServeOptions) error { return errors.New("served") }}, strings.Fields(args)...)
		if got.code != 2 || got.out != "" || !strings.HasPrefix(got.err, "ringlet: ") {
			t.Errorf("%q: code %d, printed %q, said %q", args, got.code, got.out, got.err)
		}
		fmt.Fprintf(&all, "$ ringlet %s\n%s", args, got.err)
	}
	golden.Check(t, "usage-errors.txt", []byte(all.String()))
}

// An argument is empty where a script has not set a variable. All keys are those that
// begin with nothing.
func TestEmptyArguments(t *testing.T) {
	for _, args := range []string{"evict", "forget", "pool show", "pool rm", "pool create", "who", "explain", "release", "join", "snapshot save", "completion"} {
		got := ringlet(t, Config{}, append(strings.Fields(args), "")...)
		if got.code != 2 || !strings.Contains(got.err, " is empty; see ringlet "+args+" --help") {
			t.Errorf("%s: code %d, said %q", args, got.code, got.err)
		}
	}
	socket := serve(t, alone())
	if got := ringlet(t, Config{}, "kv", "get", "-r", "", "--socket", socket); got.code == 2 {
		t.Errorf("kv get: %+v", got)
	}
}

func TestFindingThePlugin(t *testing.T) {
	f := alone()
	socket := serve(t, f)
	plugin := func(id, name string, enabled bool) dockerd.Plugin {
		return dockerd.Plugin{ID: id, Name: name, Enabled: enabled}
	}
	tests := []struct {
		name    string
		plugins []dockerd.Plugin
		err     error
	}{
		{name: "none"},
		{name: "disabled", plugins: []dockerd.Plugin{plugin("aa", "ringlet:latest", false)}},
		{name: "several", plugins: []dockerd.Plugin{plugin("aa", "ringlet:latest", true), plugin("bb", "lab/ringlet:1.0", true), plugin("cc", "x", false)}},
		{name: "one of several is enabled, and not on this host", plugins: []dockerd.Plugin{plugin("bb", "ringlet:1.0", true), plugin("cc", "ringlet:0.9", false)}},
		{name: "no engine", err: errors.New("nobody listens on /var/run/docker.sock")},
		{name: "not for everybody", err: fmt.Errorf("dial unix /var/run/docker.sock: connect: %w", syscall.EACCES)},
	}
	var all strings.Builder
	for _, tt := range tests {
		find := func(context.Context, string) ([]dockerd.Plugin, error) { return tt.plugins, tt.err }
		got := ringlet(t, Config{FindPlugin: find}, "status")
		if got.code != 1 || got.out != "" {
			t.Errorf("%s: code %d, printed %q", tt.name, got.code, got.out)
		}
		fmt.Fprintf(&all, "# %s\n%s\n", tt.name, got.err)
		// The engine is asked last of all.
		for _, cfg := range []Config{
			{FindPlugin: find, Getenv: env("RINGLET_SOCKET", socket)},
			{FindPlugin: find, Getenv: env("RINGLET_SOCKET", "/nowhere")},
		} {
			if got := ringlet(t, cfg, "status", "--socket", socket); got.code != 0 {
				t.Errorf("%s: code %d, said %s", tt.name, got.code, got.err)
			}
		}
		if got := ringlet(t, Config{FindPlugin: find, Getenv: env("RINGLET_SOCKET", socket)}, "status"); got.code != 0 {
			t.Errorf("%s: code %d, said %s", tt.name, got.code, got.err)
		}
	}
	golden.Check(t, "find-errors.txt", []byte(all.String()))
}

// What is said when the socket does not lead to a plugin.
func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	strange := func(h http.HandlerFunc) string {
		t.Helper()
		path := filepath.Join(dir, fmt.Sprintf("strange-%p.sock", h))
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: h}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		t.Cleanup(func() { _ = srv.Close(); <-done })
		return path
	}
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ socket, want string }{
		"none":        {filepath.Join(dir, "none.sock"), "there is no socket there: see whether that is its --admin-socket"},
		"dead":        {dead, "nothing answers there: the process has ended"},
		"no socket":   {plain, "that is not a socket"},
		"another API": {strange(http.NotFound), "is not ringlet's admin socket (404 Not Found)"},
		"another JSON": {strange(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"message":"page not found"}`)
		}), "is not ringlet's admin socket"},
		"no JSON":    {strange(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }), "is not ringlet's admin socket"},
		"other JSON": {strange(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1]`) }), "is not ringlet's admin socket"},
		"cut off":    {strange(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "EOF: try again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ringlet(t, Config{}, "status", "--socket", tt.socket)
			if got.code != 1 || got.out != "" || !strings.Contains(got.err, tt.want) || !strings.Contains(got.err, tt.socket) || strings.Contains(got.err, "http://") {
				t.Errorf("code %d, printed %q, said %q, want %q", got.code, got.out, got.err, tt.want)
			}
		})
	}
}

// The sentence of the plugin is what the user reads.
func TestRefusals(t *testing.T) {
	f := alone()
	f.err = &ipam.Error{Kind: ipam.ErrNoAddress, Text: "no free address in 10.50.0.0/24 (lab): remove a container"}
	got := ringlet(t, Config{}, "alloc", "--pool", "lab", "--for", "x", "--socket", serve(t, f))
	if want := "ringlet: no free address in 10.50.0.0/24 (lab): remove a container\n"; got.err != want || got.out != "" {
		t.Errorf("said %q, want %q", got.err, want)
	}
}

// Without --pool the plugin chooses, or names the pools.
func TestAllocWithoutPool(t *testing.T) {
	got := ringlet(t, Config{}, "alloc", "--for", "x", "--socket", serve(t, alone()))
	if want := "ringlet: name the pool, or set RINGLET_DEFAULT_POOL on this host; there are lab, spare, fd00:50::/64\n"; got.err != want || got.code != 1 {
		t.Errorf("said %q with code %d, want %q", got.err, got.code, want)
	}
}

// Who has one address and gets another one is noted, here and on other hosts. Standard output is the address alone.
func TestAllocNotesOtherAddresses(t *testing.T) {
	socket := serveDirectory(t)
	for holder, want := range map[string]string{
		"printer-3": "note: printer-3 also holds 10.50.0.3 on host-a\n",
		"db":        "note: db also holds 10.50.0.200 on host-b\n",
		"nobody":    "",
	} {
		if got := ringlet(t, Config{}, "alloc", "--pool", "lab", "--for", holder, "--socket", socket); got.out != "10.50.0.9\n" || got.err != want || got.code != 0 {
			t.Errorf("%+v, want the note %q", got, want)
		}
	}
}

// The process that systemd runs is found, unless an engine has the plugin or is on another host.
func TestFindingTheProcessOfTheUnit(t *testing.T) {
	socket := serve(t, alone())
	none := func(context.Context, string) ([]dockerd.Plugin, error) { return nil, nil }
	for name, tt := range map[string]struct {
		find   func(context.Context, string) ([]dockerd.Plugin, error)
		docker string
		found  bool
	}{
		"an engine without the plugin": {none, "", true},
		"no engine":                    {func(context.Context, string) ([]dockerd.Plugin, error) { return nil, errors.New("nobody listens") }, "", true},
		"an engine of this host":       {none, "unix:///run/docker.sock", true},
		"an engine of another host":    {none, "ssh://host-b", false},
		"a plugin that is disabled": {func(context.Context, string) ([]dockerd.Plugin, error) {
			return []dockerd.Plugin{{ID: "aa", Name: "ringlet:latest"}}, nil
		}, "", false},
	} {
		got := ringlet(t, Config{FindPlugin: tt.find, Getenv: env("DOCKER_HOST", tt.docker), unitSocket: socket}, "status")
		if (got.code == 0) != tt.found {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	code := Execute(ctx, Config{Err: &errs}, []string{"ringlet", "status", "--socket", serve(t, alone())})
	if code != 1 || errs.String() != "ringlet: interrupted\n" {
		t.Errorf("code %d, said %q", code, errs.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestOutputThatCannotBeWritten(t *testing.T) {
	socket := serve(t, alone())
	for _, args := range []string{"status", "status -o json", "ip ls", "ring -o json", "version", "completion bash"} {
		got := ringlet(t, Config{Out: fullDisk{}}, append(strings.Fields(args), "--socket", socket)...)
		if got.code != 1 || !strings.Contains(got.err, "no space left on device") {
			t.Errorf("%s: code %d, said %q", args, got.code, got.err)
		}
	}
}

func TestServe(t *testing.T) {
	inPlugin := ServeOptions{
		Data: "/data", Socket: "/run/docker/plugins/ringlet.sock", AdminSocket: "/run/docker/plugins/ringlet-admin.sock",
		DockerSocket: "/run/docker/host/docker.sock", DriverNames: []string{"ringlet"},
	}
	outside := ServeOptions{Data: "d", Socket: "/x/lab.sock", AdminSocket: "a", DriverNames: []string{"lab"}}
	named := outside
	named.DriverNames = []string{"one", "two"}
	for args, want := range map[string]ServeOptions{
		"serve": inPlugin,
		"serve --data d --socket /x/lab.sock --admin-socket a --docker-socket=":                                     outside,
		"serve --data d --socket /x/lab.sock --admin-socket a --docker-socket= --driver-name one --driver-name two": named,
	} {
		var got ServeOptions
		r := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", "/other"), Serve: func(_ context.Context, opts ServeOptions) error { got = opts; return nil }}, strings.Fields(args)...)
		if diff := cmp.Diff(want, got); diff != "" || r.code != 0 || r.out != "" || r.err != "" {
			t.Errorf("%s: code %d, said %q, options (-want +got):\n%s", args, r.code, r.err, diff)
		}
	}
	r := ringlet(t, Config{Serve: func(context.Context, ServeOptions) error { return errors.New("the socket is in use") }}, "serve")
	if r.code != 1 || r.err != "ringlet: the socket is in use\n" {
		t.Errorf("code %d, said %q", r.code, r.err)
	}
	for _, flag := range []string{"--data", "--socket", "--admin-socket"} { // as of a variable of a script that is not set
		serves := func(context.Context, ServeOptions) error { t.Errorf("%s is empty, and it serves", flag); return nil }
		if r := ringlet(t, Config{Serve: serves}, "serve", flag, ""); r.code != 2 || !strings.Contains(r.err, flag+" is empty") {
			t.Errorf("%s is empty: code %d, said %q", flag, r.code, r.err)
		}
	}
	if r := ringlet(t, Config{}, "serve"); r.code != 2 {
		t.Errorf("without a process to run: code %d, said %q", r.code, r.err)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	if flag, command := ringlet(t, Config{}, "--version"), ringlet(t, Config{}, "version"); flag != command {
		t.Errorf("--version got %+v, version %+v", flag, command)
	}
	if got := ringlet(t, Config{}, "--version", "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"version": "v1.2.3"`) {
		t.Errorf("--version -o json got %+v", got)
	}
	if got := ringlet(t, Config{}, "version"); got.code != 0 || !strings.HasPrefix(got.out, "ringlet v1.2.3, go1.") {
		t.Errorf("got %+v", got)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := ringlet(t, Config{}, "completion", shell); got.code != 0 || !strings.Contains(got.out, "ringlet") || strings.Count(got.out, "\n") < 20 {
			t.Errorf("%s: code %d, %d bytes, said %q", shell, got.code, len(got.out), got.err)
		}
	}
}

func TestColour(t *testing.T) {
	socket := serve(t, troubled())
	cfg := Config{columns: 80, colour: true}
	coloured := ringlet(t, cfg, "status", "--socket", socket).out
	cfg.colour = false
	monochrome := ringlet(t, cfg, "status", "--socket", socket).out
	if !strings.Contains(coloured, "\x1b[33mdegraded: \x1b[0m") {
		t.Errorf("the verdict has no colour: %q", coloured[:min(len(coloured), 60)])
	}
	var stripped strings.Builder
	for i, piece := range strings.Split(coloured, "\x1b[") {
		if i > 0 {
			_, piece, _ = strings.Cut(piece, "m")
		}
		stripped.WriteString(piece)
	}
	if diff := cmp.Diff(monochrome, stripped.String()); diff != "" {
		t.Errorf("colour changes the layout (-without +with):\n%s", diff)
	}
	for _, off := range [][]string{{"NO_COLOR", "1"}, {"TERM", "dumb"}} {
		cfg := Config{columns: 80, colour: true, Getenv: env(off...)}
		if got := ringlet(t, cfg, "status", "--socket", socket).out; got != monochrome {
			t.Errorf("with %s=%s: %q", off[0], off[1], got)
		}
	}
}
