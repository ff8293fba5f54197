package logging

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// The last lines are kept, also when nobody writes them out, and not for ever.
func TestRecent(t *testing.T) {
	log, sink := New(Config{Queue: 1})
	log.Info("first")
	log.Error("second")
	if got := string(sink.Recent()); strings.Count(got, "\n") != 2 || !strings.Contains(got, "first") || !strings.Contains(got, "second") {
		t.Errorf("got %q", got)
	}
	for i := range 10_000 {
		log.Info("a line of some length, which says what happened", slog.Int("n", i))
	}
	got := string(sink.Recent())
	if len(got) > keepRecent || len(got) < keepRecent/2 || !strings.Contains(got, fmt.Sprint("n=", 9999)) || strings.Contains(got, "first") {
		t.Errorf("%d bytes are kept, and end with %q", len(got), got[max(0, len(got)-100):])
	}
}
