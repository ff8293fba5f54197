package logattr_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/logattr"
)

// id prints as text although it is bytes, as a peer's ID does.
type id [2]byte

func (i id) String() string { return "id-" + string(i[:]) }

// count is a distinct integer type, as the core has them.
type count uint64

func TestAttributes(t *testing.T) {
	tests := []struct {
		attr slog.Attr
		key  string
		text string // as TextHandler writes it
		json any    // as JSONHandler writes it, decoded
	}{
		{logattr.Node("host-a"), "node", "host-a", "host-a"},
		{logattr.Peer(id{'x', 'y'}), "peer", "id-xy", "id-xy"},
		{logattr.Pool(netip.MustParsePrefix("10.32.0.0/24")), "pool", "10.32.0.0/24", "10.32.0.0/24"},
		{logattr.Addr(netip.MustParseAddr("fd00::9")), "addr", "fd00::9", "fd00::9"},
		{logattr.Range(id{'0', '9'}), "range", "id-09", "id-09"},
		{logattr.Container("web-1"), "container", "web-1", "web-1"},
		{logattr.Endpoint("ep"), "endpoint", "ep", "ep"},
		{logattr.Network("lan"), "network", "lan", "lan"},
		{logattr.Name("lab"), "name", "lab", "lab"},
		{logattr.Kind("open"), "kind", "open", "open"},
		{logattr.Ballot(id{'7', 'a'}), "ballot", "id-7a", "id-7a"},
		{logattr.Version(uint64(3)), "version", "3", 3.0},
		{logattr.Slot(count(12)), "slot", "12", 12.0},
		{logattr.Count(-1), "count", "-1", -1.0},
		{logattr.Bytes(int64(1400)), "bytes", "1400", 1400.0},
		{logattr.Took(1500 * time.Millisecond), "took", "1.5s", 1.5e9},
		{logattr.Request("7f3a"), "request", "7f3a", "7f3a"},
		{logattr.Err(errors.New("disk full")), "err", `"disk full"`, "disk full"},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			if tt.attr.Key != tt.key {
				t.Errorf("got key %q, want %q", tt.attr.Key, tt.key)
			}
			if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(tt.attr.Key) {
				t.Errorf("key %q is not snake case", tt.attr.Key)
			}
			if seen[tt.key] {
				t.Errorf("key %q is made by two constructors", tt.key)
			}
			seen[tt.key] = true

			var buf bytes.Buffer
			slog.New(slog.NewTextHandler(&buf, nil)).LogAttrs(t.Context(), slog.LevelInfo, "m", tt.attr)
			if want := " " + tt.key + "=" + tt.text + "\n"; !strings.HasSuffix(buf.String(), want) {
				t.Errorf("text line %q does not end in %q", buf.String(), want)
			}

			buf.Reset()
			slog.New(slog.NewJSONHandler(&buf, nil)).LogAttrs(t.Context(), slog.LevelInfo, "m", tt.attr)
			var line map[string]any
			if err := json.Unmarshal(buf.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.json, line[tt.key]); d != "" {
				t.Errorf("JSON value (-want +got):\n%s", d)
			}
		})
	}
}

func TestLargestCount(t *testing.T) {
	if got := logattr.Count(uint64(math.MaxUint64)).Value.String(); got != "18446744073709551615" {
		t.Errorf("got %s", got)
	}
}

func TestNilIsNoPanic(t *testing.T) {
	for _, a := range []slog.Attr{logattr.Peer(nil), logattr.Pool(nil), logattr.Range(nil), logattr.Ballot(nil)} {
		if got := a.Value.Resolve().String(); got != "" {
			t.Errorf("%s: got %q for nil, want nothing", a.Key, got)
		}
	}
	if got := logattr.Err(nil).Value.Any(); got != nil {
		t.Errorf("got %v for a nil error", got)
	}
}

// TestDisabledLineFormatsNothing holds the promise of the package comment.
func TestDisabledLineFormatsNothing(t *testing.T) {
	var s counting
	log := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	log.LogAttrs(t.Context(), slog.LevelDebug, "m", logattr.Peer(&s))
	if s != 0 {
		t.Errorf("String was called %d times for a line that is not written", s)
	}
	log.LogAttrs(t.Context(), slog.LevelInfo, "m", logattr.Peer(&s))
	if s == 0 {
		t.Error("String was not called for a line that is written")
	}
}

type counting int

func (c *counting) String() string { *c++; return "counted" }
