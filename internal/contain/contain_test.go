package contain

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
)

// A panic is contained and counted each time, and logged with its stack once a minute.
func TestEdge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		counted := map[string]int{}
		e := Edge{Where: "frame", Logger: slog.New(slog.NewTextHandler(&log, nil)), Count: func(where string) { counted[where]++ }}
		done := 0
		for range 3 {
			if e.Do(func() { panic("poison") }) {
				t.Error("it panicked, and Do says that it returned")
			}
			if !e.Do(func() { done++ }) {
				t.Error("it returned, and Do says that it panicked")
			}
		}
		if done != 3 || counted["frame"] != 3 {
			t.Errorf("%d calls returned, and %v were counted", done, counted)
		}
		lines := func() int { return strings.Count(log.String(), "a panic was contained") }
		if lines() != 1 || !strings.Contains(log.String(), "contain_test.go") {
			t.Errorf("the log has %s", log.String())
		}
		time.Sleep(time.Minute)
		e.Do(func() { panic("poison") })
		if lines() != 2 {
			t.Errorf("after a minute the log has %d lines", lines())
		}
		if (&Edge{}).Do(func() { panic("poison") }) {
			t.Error("the zero edge says that it returned")
		}
	})
}
