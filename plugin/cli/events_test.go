package cli

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/events"
)

// serveEvents is serve for a peer on which something happened.
func serveEvents(t *testing.T, l *events.Log) string {
	t.Helper()
	return serveConfig(t, admin.Config{Backend: alone(), Events: l})
}

func happened() *events.Log {
	l := events.New(17, 0, 4)
	use := ipam.Use{Kind: "container", Container: strings.Repeat("0123456789abcdef", 4), Name: "web", Since: now}
	l.Note(now, ipam.Note{Kind: ipam.NotePoolCreated, Pool: prefix("10.50.0.0/24")})
	l.Note(now, ipam.Note{Kind: ipam.NoteGranted, Pool: prefix("10.50.0.0/24"), Address: ip("10.50.0.2"), Use: use})
	l.Note(now.Add(time.Second), ipam.Note{Kind: ipam.NoteGranted, Pool: prefix("10.50.0.0/24"), Address: ip("10.50.0.4"), Use: ipam.Use{Kind: "client", Container: "evil\x1b[2J\nname", Since: now}})
	l.Note(now.Add(time.Minute), ipam.Note{Kind: ipam.NotePeerJoined, Holder: "host-b"})
	l.Problems(now.Add(time.Hour), []ipam.Problem{{Code: "pool-full", Text: "pool 10.50.0.0/24 is full", Level: "degraded"}})
	return l
}

func TestEvents(t *testing.T) {
	socket := serveEvents(t, happened())
	for file, args := range map[string][]string{
		"events.txt":       nil,
		"events-since.txt": {"--since", "16-3"},
		"events-kind.txt":  {"--kind", "peer-joined,problem-began"},
		"events.jsonl":     {"-o", "json"},
		"events-last.txt":  {"-n", "2"},
		"events-time.txt":  {"--since", now.Add(30 * time.Second).Format(time.RFC3339)},
	} {
		got := ringlet(t, Config{Now: func() time.Time { return now.Add(24 * time.Hour) }}, append([]string{"events", "--socket", socket}, args...)...)
		if got.code != 0 || got.err != "" {
			t.Errorf("%s: code %d, said %s", file, got.code, got.err)
		}
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("%s has control characters", file)
		}
		golden.Check(t, file, []byte(got.out))
	}
	if got := ringlet(t, Config{}, "events", "--kind", "nonsense"); got.code != 2 || !strings.Contains(got.err, "granted") {
		t.Errorf("code %d, said %s", got.code, got.err)
	}
	for _, args := range [][]string{{"--since", "soon"}, {"--since", "2999-01-01"}, {"-n", "-2"}, {"-n", "many"}} {
		if got := ringlet(t, Config{}, append([]string{"events"}, args...)...); got.code != 2 || !strings.Contains(got.err, args[1]) {
			t.Errorf("%v: code %d, said %s", args, got.code, got.err)
		}
	}
	if got := ringlet(t, Config{}, "events", "-n", "0", "--socket", socket); got.code != 0 || got.out != "" {
		t.Errorf("code %d, wrote %s", got.code, got.out)
	}
	if got := ringlet(t, Config{}, "events", "--socket", serve(t, alone())); got.code != 1 || !strings.Contains(got.err, "there is nothing at this path") {
		t.Errorf("code %d, said %s", got.code, got.err)
	}
}

// watched tells when a text has been written to it.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.want != "" && strings.Contains(w.text.String(), w.want) {
		w.want = ""
		close(w.seen)
	}
	return len(p), nil
}

// What happens is shown as it happens, until the user has seen enough.
// The start of a container is one line, though the engine lists the container only later. A container that is renamed is another.
func TestEventsOfAStart(t *testing.T) {
	l := events.New(17, 0, 8)
	web := ipam.Use{Kind: "container", MAC: ipam.MAC{2, 0, 0, 0, 0, 1}, Since: now}
	note := func(after time.Duration, kind ipam.NoteKind, a string) {
		l.Note(now.Add(after), ipam.Note{Kind: kind, Pool: prefix("10.50.0.0/24"), Address: ip(a), Use: web})
	}
	note(0, ipam.NoteGranted, "10.50.0.2")
	note(0, ipam.NoteGranted, "10.50.0.3")
	web.Name, web.Container = "web", strings.Repeat("0123456789abcdef", 4)
	note(2*time.Second, ipam.NoteDescribed, "10.50.0.2")
	web.Name = "shop"
	note(time.Hour, ipam.NoteDescribed, "10.50.0.2")
	socket := serveEvents(t, l)
	for _, format := range []string{"table", "json"} {
		out := ringlet(t, Config{}, "events", "-o", format, "--socket", socket).out
		want := 4
		if format == "table" {
			want = 3
			if line, _, _ := strings.Cut(out, "\n"); !strings.Contains(line, "granted") || !strings.Contains(line, "10.50.0.2 handed out to container web (0123456789ab)") {
				t.Errorf("the first line is %q", line)
			}
		}
		if n := strings.Count(out, "\n"); n != want || !strings.Contains(out, "shop") {
			t.Errorf("%s has %d lines:\n%s", format, n, out)
		}
	}
}

func TestEventsFollow(t *testing.T) {
	l := happened()
	socket := serveEvents(t, l)
	ctx, stop := context.WithCancel(t.Context())
	out := &watched{want: "host-b: joined", seen: make(chan struct{})}
	ended := make(chan int)
	go func() {
		ended <- Execute(ctx, Config{Out: out, Err: out, Getenv: func(string) string { return "" }}, []string{"ringlet", "events", "-f", "--socket", socket})
	}()
	<-out.seen
	out.mu.Lock()
	out.want, out.seen = "host-c: joined", make(chan struct{})
	out.mu.Unlock()
	l.Note(now, ipam.Note{Kind: ipam.NotePeerJoined, Holder: "host-c"})
	<-out.seen
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("code %d: %s", code, out.text.String())
	}
}
