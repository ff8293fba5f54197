package gossip

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
)

// TestMemberlistLines turns lines of memberlist into our log.
func TestMemberlistLines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		cfg := goodConfig()
		cfg.Logger = slog.New(slog.NewTextHandler(&out, nil)) // from Info on
		g, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		to := g.memberlistLogger()
		written := func(line string) string {
			out.Reset()
			to.Print(line)
			return out.String()
		}
		for _, tt := range []struct{ line, want string }{
			{"[DEBUG] memberlist: Stream connection from=10.0.0.1:2", ""},
			{"[INFO] memberlist: Suspect A has failed, no acks received", ""},
			{"[WARN] memberlist: Refuting a suspect message (from: A)", `level=INFO msg="memberlist message" text="Refuting`},
			{"[WARN] memberlist: Refuting a suspect message (from: B)", ""},
			{"[ERR] memberlist: Push/Pull with A failed: EOF", `level=WARN msg="memberlist message" text="Push/Pull with A`},
			{"no level at all", ""},
			{"", ""},
		} {
			got := written(tt.line)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 {
				t.Errorf("%q: got %q, want %q", tt.line, got, tt.want)
			}
		}
		time.Sleep(2 * repeatEvery)
		if written("[WARN] memberlist: Refuting a suspect message (from: C)") == "" {
			t.Error("a line is not repeated after its time")
		}
	})
}
