package cli

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/journal"
)

// diary is a journal that begins at 9 o'clock, in which web has an address from
// 10 to 11 o'clock, and db since.
type diary struct{}

func (diary) Who(_ context.Context, a netip.Addr, at time.Time) (journal.Past, error) {
	clock := func(h int) time.Time { return time.Date(2026, 11, 21, h, 0, 0, 0, time.UTC) }
	p := journal.Past{Address: a, At: at, State: "free", Begins: clock(9)}
	switch {
	case at.Before(clock(9)):
		p.State = "unknown"
	case a == ip("10.50.0.201"):
		p.State = "unknown"
	case a == ip("10.50.0.202"):
		p.Owner = "reserved"
	case a == ip("10.50.0.200"), a == ip("10.50.0.205"):
		p.State, p.Owner = "elsewhere", map[bool]string{true: "host-b", false: "host-c"}[a == ip("10.50.0.200")]
	case !at.Before(clock(12)):
		p.State, p.Since, p.Holder = "held", clock(12), &events.Holder{Kind: "client", Name: "evil\x1b[2Jname", Since: clock(12)}
	case !at.Before(clock(10)):
		p.State, p.Since, p.Until, p.Holder = "held", clock(10), clock(11), &events.Holder{Kind: "container", Container: "0123456789abcdef", Name: "web", Since: clock(10)}
		if !at.Before(clock(11)) {
			p.State, p.Inferred = "free", true
		}
	}
	return p, nil
}

// diaries is a directory of a cluster whose other journals know something of 10.50.0.201 to .203.
type diaries struct{ *directory.Directory }

func (diaries) Ask(_ context.Context, a netip.Addr, at time.Time) (told []directory.Testimony, silent []string) {
	clock := func(h int) time.Time { return time.Date(2026, 11, 21, h, 0, 0, 0, time.UTC) }
	p := journal.Past{Address: a, At: at.UTC(), State: "held", Since: clock(9), Begins: clock(8), Holder: &events.Holder{Kind: "container", Container: "fedcba98", Name: "db", Since: clock(9)}}
	tell := func(owner string) {
		text, _ := json.Marshal(p)
		told = append(told, directory.Testimony{Owner: owner, Text: text})
	}
	switch a {
	case ip("10.50.0.201"):
		tell("bb02")
	case ip("10.50.0.203"):
		tell("bb02")
		p.Holder.Name, p.Since = "evil\x1b[2Jname", clock(8)
		tell("cc03")
		return told, nil
	default:
		p.State, p.Holder, p.Since = "unknown", nil, time.Time{}
		tell("bb02")
	}
	return told, []string{"cc03"}
}

// With several hosts the answer says whose journal it is from, and which hosts have not answered.
func TestWhoAtOfAll(t *testing.T) {
	b := alone()
	b.st.Peers = append(b.st.Peers, ipam.PeerStatus{ID: "bb02", Name: "host-b"}, ipam.PeerStatus{ID: "cc03", Name: "host-c"})
	socket := serveConfig(t, admin.Config{Backend: b, Journal: diary{}, Directory: diaries{}})
	var all strings.Builder
	for _, c := range []struct {
		args string
		code int
	}{
		{"10.50.0.201 --at 09:30", exitFine}, // host-b's, and host-c would not change it
		{"10.50.0.204 --at 09:30", exitDegraded},
		{"10.50.0.200 --at 09:30", exitDegraded},
		{"10.50.0.205 --at 09:30", exitDegraded},
		{"10.50.0.203 --at 09:30", exitFine},
		{"10.50.0.203 --at 09:30 -o json", exitFine},
	} {
		got := ringlet(t, Config{}, append([]string{"who", "--socket", socket}, strings.Fields(c.args)...)...)
		if strings.Contains(got.out, "\x1b") || got.code != c.code {
			t.Errorf("%s: code %d, want %d; %q", c.args, got.code, c.code, got.out)
		}
		all.WriteString("$ ringlet who " + c.args + "\n" + got.out + got.err + "\n")
	}
	golden.Check(t, "who-at-all.txt", []byte(all.String()))
}

func TestWhoAt(t *testing.T) {
	socket := serveConfig(t, admin.Config{Backend: alone(), Journal: diary{}})
	var all strings.Builder
	for _, args := range [][]string{
		{"10.50.0.7", "--at", "08:00"},
		{"10.50.0.7", "--at", "2026-11-21 09:30"},
		{"10.50.0.7", "--at", "2026-11-21T11:30:00+01:00"},
		{"10.50.0.7", "--at", "30m"},
		{"10.50.0.7", "--at", "0s"},
		{"10.50.0.200", "--at", "2026-11-21 09:30:05"},
		{"10.50.0.202", "--at", "2026-11-21 09:30:05"},
		{"10.50.0.201", "--at", "2026-11-21 09:30:05"},
		{"10.50.0.7", "--at", "0s", "-o", "json"},
		{"10.50.0.7", "--at", "noon"},
		{"10.50.0.7", "--at", "23:00"},
	} {
		got := ringlet(t, Config{}, append([]string{"who", "--socket", socket}, args...)...)
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("%q: control characters", args)
		}
		all.WriteString("$ ringlet who " + strings.Join(args, " ") + "\n" + got.out + got.err + "\n")
	}
	golden.Check(t, "who-at.txt", []byte(all.String()))
}

func TestParseTime(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	at := time.Date(2026, 11, 21, 12, 30, 0, 0, berlin)
	for text, want := range map[string]string{
		"2026-11-20 09:00": "2026-11-20T09:00:00+01:00", "2026-11-20": "2026-11-20T00:00:00+01:00", "09:00": "2026-11-21T09:00:00+01:00",
		"2h": "2026-11-21T10:30:00+01:00", "2026-11-20T09:00:00Z": "2026-11-20T09:00:00Z", "90m": "2026-11-21T11:00:00+01:00",
	} {
		if got, err := parseTime(nil, text, at); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "noon", "-2h", "25:00", "2026-13-01"} {
		if _, err := parseTime(New(Config{}), text, at); err == nil || ExitCode(err) != 2 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
