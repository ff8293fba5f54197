//go:build marked

package directory

import (
	"log/slog"
	"testing"

	"github.com/ringlet/ringlet/internal/contain"
)

// A frame that makes the directory panic costs that frame.
func TestMarkedFrame(t *testing.T) {
	counted := 0
	d := &Directory{taking: contain.Edge{Where: "directory", Logger: slog.New(slog.DiscardHandler), Count: func(string) { counted++ }}}
	for range 2 {
		if d.taking.Do(func() { d.take([]byte(contain.Mark)) }) {
			t.Error("it was taken")
		}
	}
	if !d.taking.Do(func() { d.take([]byte("garbage")) }) || counted != 2 || d.counts.refused.Load() != 1 {
		t.Errorf("%d panics were counted, and %d frames refused", counted, d.counts.refused.Load())
	}
}
