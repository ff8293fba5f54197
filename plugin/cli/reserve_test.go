package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

// What was excluded at once is shown as one, whatever pieces it was reserved in.
func TestExcludedPieces(t *testing.T) {
	piece := func(first, last string, n uint64, note string) ipam.ReservationStatus {
		return ipam.ReservationStatus{Pool: prefix("10.50.0.0/24"), First: ip(first), Last: ip(last), Addresses: n, Kind: "excluded", Note: note}
	}
	f := alone()
	f.reservations = []ipam.ReservationStatus{
		piece("10.50.0.32", "10.50.0.32", 1, "DHCP"), piece("10.50.0.33", "10.50.0.39", 7, "DHCP"), piece("10.50.0.40", "10.50.0.41", 2, "DHCP"),
		piece("10.50.0.43", "10.50.0.43", 1, "DHCP"), piece("10.50.0.44", "10.50.0.44", 1, "printers"),
	}
	got := ringlet(t, Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, f))}, "exclude", "ls")
	var rows []string
	for line := range strings.Lines(got.out) {
		rows = append(rows, strings.Join(strings.Fields(line)[:2], " "))
	}
	if want := []string{"ADDRESSES COUNT", "10.50.0.32-10.50.0.41 10", "10.50.0.43 1", "10.50.0.44 1"}; !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	var list []ipam.ReservationStatus
	got = ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "exclude", "ls", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 3 {
		t.Errorf("got %s, %v", got.out, err)
	}
}

// An engine that sends no names of containers knows none of them by one.
func TestReserveForANameThatIsNotSent(t *testing.T) {
	for version, want := range map[string]bool{"28.5.2": true, "29.0.0": false, "": false} {
		f := alone()
		f.about.Engine.Version = version
		cfg := Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, f))}
		got := ringlet(t, cfg, "reserve", "add", "10.50.0.20", "--for", "db")
		if got.code != 0 || !strings.HasPrefix(got.out, "10.50.0.20: reserved for db\n") || strings.Contains(got.out, "note: engine 28.5.2 does not send") != want {
			t.Errorf("engine %s: %+v", version, got)
		}
		if got := ringlet(t, cfg, "reserve", "add", "10.50.0.20", "--for", "db", "-o", "json"); strings.Contains(got.out, "note: ") {
			t.Errorf("engine %s: %+v", version, got)
		}
	}
}

// What can be neither a MAC nor the name of a container is kept, as ringlet alloc takes any
// name, and is told: with a part of a MAC missing no container would ever get the address.
func TestReserveForWhatNoContainerIsCalled(t *testing.T) {
	for holder, want := range map[string]bool{
		"db": false, "shop_web.1": false, "02:42:c0:a8:01:79": false, "0242.C0A8.0179": false, "02-42-c0-a8-01-79": false,
		"02:42:c0:a8:01": true, "02:42:c0:a8:01:79:00:01": true, "/db": true, "shim of host-a": true, "x": true, "\x1b[2Jdb": true,
	} {
		f := alone()
		f.about.Engine.Version = "29.0.0"
		cfg := Config{columns: 200, Getenv: env("RINGLET_SOCKET", serve(t, f))}
		got := ringlet(t, cfg, "reserve", "add", "10.50.0.20", "--for", holder)
		if got.code != 0 || strings.Contains(got.out, "no container can have that name") != want || strings.Contains(got.out, "\x1b") {
			t.Errorf("for %q: %+v", holder, got)
		}
	}
}

// What is kept back is told, with what is in the way.
func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		name, args, out string
		code            int
		asked           []string
	}{
		{
			"excluded", "exclude add 10.50.0.9 --note printer", "10.50.0.9: excluded\n", 0,
			[]string{`reserve "" 10.50.0.9-10.50.0.9 excluded "printer"`},
		},
		{
			"some of it in use", "exclude add 10.50.0.1-10.50.0.9 --pool lab",
			"10.50.0.1-10.50.0.9: 7 addresses excluded, but not these:\n" +
				"  10.50.0.2 is held by container web (0123456789ab) on host-a since 2026-11-21\n  11:58 UTC\n" +
				"  10.50.0.4-10.50.0.6 is held by \\\"evil\\x1b[2J\\nname\\\" on host-a since\n  2026-11-18 12:00 UTC\n", 3,
			[]string{`reserve "lab" 10.50.0.1-10.50.0.9 excluded ""`},
		},
		{
			"several", "exclude add 10.50.0.9 fd00:50::9", "10.50.0.9: excluded\nfd00:50::9: excluded\n", 0,
			[]string{`reserve "" 10.50.0.9-10.50.0.9 excluded ""`, `reserve "" fd00:50::9-fd00:50::9 excluded ""`},
		},
		{
			"kept", "reserve add 10.50.0.20 --for db", "10.50.0.20: reserved for db\n", 0,
			[]string{`reserve "" 10.50.0.20-10.50.0.20 kept for a name "db"`, "about"},
		},
		{
			"kept for what no container is called", "reserve add 10.50.0.20 --for a\x1bb",
			"10.50.0.20: reserved for a\\x1bb\nnote: \"a\\x1bb\" is not a MAC address, and no container can have that name: only\n      ringlet alloc --for can use it\n", 0,
			[]string{`reserve "" 10.50.0.20-10.50.0.20 kept for a name "a\x1bb"`},
		},
		{
			"kept for a MAC", "reserve add 10.50.0.20 --for 02:42:0a:32:00:15", "10.50.0.20: reserved for 02:42:0a:32:00:15\n", 0,
			[]string{`reserve "" 10.50.0.20-10.50.0.20 kept for a name "02:42:0a:32:00:15"`},
		},
		{
			"no more", "exclude rm 10.50.0.8/31 10.50.0.9", "10.50.0.8-10.50.0.9: 10 addresses are no longer excluded\n10.50.0.9: nothing there was excluded\n", 0,
			[]string{`unreserve "" 10.50.0.8-10.50.0.9 excluded`, `unreserve "" 10.50.0.9-10.50.0.9 excluded`},
		},
		{
			"kept no more", "reserve rm 10.50.0.8-10.50.0.9 --pool lab", "10.50.0.8-10.50.0.9: 10 addresses are no longer reserved\n", 0,
			[]string{`unreserve "lab" 10.50.0.8-10.50.0.9 kept for a name`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := alone()
			got := ringlet(t, Config{columns: 80, Getenv: env("RINGLET_SOCKET", serve(t, f))}, strings.Fields(tt.args)...)
			if diff := cmp.Diff(result{tt.out, "", tt.code}, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.asked, f.calls); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// What was done before something is refused is told, and that is the end of it.
func TestDoneBeforeARefusal(t *testing.T) {
	report, err := json.Marshal(ipam.Audit{PeerID: alone().st.Self.ID, Findings: leaks(2*maxCollect + 1)})
	if err != nil {
		t.Fatal(err)
	}
	for args, tt := range map[string]struct{ fails, told, not string }{
		"exclude add 10.50.0.8 10.50.0.9 10.50.0.10":      {`reserve "" 10.50.0.9-`, "10.50.0.8: excluded\n", "10.50.0.10"},
		"exclude rm 10.50.0.0/31 10.50.0.9 10.50.0.12/31": {`unreserve "" 10.50.0.9-`, "10.50.0.0-10.50.0.1: 10 addresses are no longer excluded\n", "10.50.0.12"},
		"gc --from -": {"collect 1 ", "freed 10.50.0.2: ", "10.50.0.102:"},
		// Nothing was, which is no empty list.
		"exclude rm 10.50.0.9 -o json": {`unreserve "" 10.50.0.9-`, "", "\n"},
		"gc --from - -o json":          {"collect ", "", "\n"},
	} {
		f := alone()
		f.fails = tt.fails
		cfg := Config{In: bytes.NewReader(report), Getenv: env("RINGLET_SOCKET", serve(t, f))}
		got := ringlet(t, cfg, strings.Fields(args)...)
		if got.code != exitFailed || got.err != "ringlet: not ready\n" || !strings.HasPrefix(got.out, tt.told) || strings.Contains(got.out, tt.not) {
			t.Errorf("%s: %+v", args, got)
		}
		if last := f.calls[len(f.calls)-1]; !strings.HasPrefix(last, tt.fails) {
			t.Errorf("%s: went on with %s", args, last)
		}
	}
}

// A list comes from a file or from standard input, and is looked through before
// anything of it is done.
func TestReserveFromFile(t *testing.T) {
	list := "# the lab\n10.50.0.20 db\n\n10.50.0.21\t02:42:0a:32:00:15 # the camera\n"
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"-", file} {
		f := alone()
		cfg := Config{In: strings.NewReader(list), Getenv: env("RINGLET_SOCKET", serve(t, f))}
		got := ringlet(t, cfg, "reserve", "add", "-f", from)
		if got.code != 0 || got.out != "10.50.0.20: reserved for db\n10.50.0.21: reserved for 02:42:0a:32:00:15\n" || len(f.calls) != 3 {
			t.Errorf("%s: %+v, asked %q", from, got, f.calls)
		}
	}
	f := alone()
	cfg := Config{In: strings.NewReader("10.50.0.1/32 the router\n10.50.0.40-10.50.0.40\n"), Getenv: env("RINGLET_SOCKET", serve(t, f))}
	ringlet(t, cfg, "exclude", "add", "10.50.0.9", "-f", "-", "--note", "others")
	want := []string{
		`reserve "" 10.50.0.9-10.50.0.9 excluded "others"`, `reserve "" 10.50.0.1-10.50.0.1 excluded "the router"`,
		`reserve "" 10.50.0.40-10.50.0.40 excluded "others"`,
	}
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for args, wrong := range map[string]string{
		"reserve add -f -":                      "10.50.0.20 db\n10.50.0.21\n",
		"exclude add -f - ":                     "10.50.0.20\nprinters\n",
		"exclude add -f -":                      "",
		"exclude add":                           "",
		"exclude rm":                            "",
		"exclude add 10.50.0.1/24":              "",
		"exclude add --note x printers":         "",
		"reserve add 10.50.0.20":                "",
		"reserve add --for db":                  "",
		"reserve add 10.50.0.2 --for db -f -":   "10.50.0.20 db\n",
		"reserve add 10.50.0.2 10.50.0.3 --for": "",
	} {
		f := alone()
		cfg := Config{In: strings.NewReader(wrong), Getenv: env("RINGLET_SOCKET", serve(t, f))}
		if got := ringlet(t, cfg, strings.Fields(args)...); got.code != exitUsage || len(f.calls) > 0 {
			t.Errorf("%s: %+v, asked %q", args, got, f.calls)
		}
	}
	for _, line := range []string{"10.50.0.10 - 10.50.0.19 printers", "10.50.0.10 -10.50.0.19"} { // of which all but the first would be handed out
		if got := ringlet(t, Config{In: strings.NewReader(line)}, "exclude", "add", "-f", "-"); got.code != exitUsage || !strings.Contains(got.err, "without spaces") {
			t.Errorf("%q: %+v", line, got)
		}
	}
	for _, empty := range []string{"", "# nothing yet\n\n"} {
		for _, command := range [][]string{{"exclude", "add"}, {"reserve", "add"}, {"exclude", "rm"}} {
			got := ringlet(t, Config{In: strings.NewReader(empty)}, append(command, "-f", "-")...)
			if got.code != exitUsage || !strings.Contains(got.err, "standard input has no addresses: write one on each line") {
				t.Errorf("%v -f - of %q: code %d, said %q", command, empty, got.code, got.err)
			}
		}
	}
	if got := ringlet(t, Config{}, "exclude", "add", "-f", os.DevNull); got.code != exitUsage || !strings.Contains(got.err, os.DevNull+" has no addresses") {
		t.Errorf("of an empty file: code %d, said %q", got.code, got.err)
	}
	if got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", "none")}, "exclude", "add", "-f", file+".none"); got.code != 1 || !strings.Contains(got.err, "no such file") {
		t.Errorf("%+v", got)
	}
}

// What an excluded address has is a note, and no name.
func TestWhoOfAnExcludedAddress(t *testing.T) {
	f := alone()
	f.list = append(f.list, ipam.AddressStatus{Address: ip("10.50.0.99"), Pool: prefix("10.50.0.0/24"), State: "reserved", Kind: "excluded", Name: "printers"})
	got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "who", "10.50.0.99")
	if got.code != exitFine || !strings.Contains(got.out, "note     printers\n") {
		t.Errorf("%+v", got)
	}
}

// The tab key offers what is reserved.
func TestReservationsAreOffered(t *testing.T) {
	cfg := Config{Getenv: env("RINGLET_SOCKET", serve(t, alone()))}
	for args, want := range map[string][]string{
		"exclude rm": {"10.50.0.10-10.50.0.19\tprinters and the coffee machine\\x1b", "fd00:50:0:0:8000::-fd00:50::ffff:ffff:ffff:fffe"},
		"reserve rm": {"10.50.0.20\tdb", "10.50.0.21\t02:42:0a:32:00:15"},
	} {
		got := ringlet(t, cfg, append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		if !slices.Equal(lines[:len(lines)-1], want) {
			t.Errorf("%s: offered %q, want %q", args, lines, want)
		}
	}
}

// Where nothing is kept back at all, that is said, and not that nothing is of one kind.
func TestNothingIsKeptBack(t *testing.T) {
	socket := serve(t, &fixture{st: ipam.Status{Verdict: ipam.Fine}})
	for args, want := range map[string]string{
		"exclude ls": "nothing is excluded\n", "exclude ls --all": "nothing is reserved\n",
		"reserve ls": "nothing is reserved\n", "reserve ls --all": "nothing is reserved\n",
	} {
		if got := ringlet(t, Config{}, append(strings.Fields(args), "--socket", socket)...); got.out != want || got.code != 0 {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
