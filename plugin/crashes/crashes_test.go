package crashes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A node that panics three times within a minute has the network closed for a quarter of an hour; one that panics now and then, or stops
// for another reason, has not.
func TestPanicked(t *testing.T) {
	dir := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		var log plugintest.Log
		counted := 0
		c := New(Config{Dir: dir, Version: "test", Count: func(string) { counted++ }, Logger: log.Logger()})
		panicked := func(text string) { c.Panicked(&node.StopError{Cause: errors.New(text), Stack: []byte("goroutine 1")}) }
		for range 5 {
			c.Panicked(errors.New("the disk is full"))
			c.Panicked(&node.StopError{Cause: errors.New("the disk is full")})
			panicked("now and then")
			time.Sleep(panicTime)
		}
		if c.Alone.Is() || counted != 5 {
			t.Errorf("the network is closed after %d panics: %v", counted, c.Alone.Is())
		}
		time.Sleep(panicTime)
		for range maxPanics {
			panicked("a frame")
		}
		p, wrong := c.Alone.Problem()
		if !wrong || p.Code != "network-closed" || !strings.Contains(p.Text, "the last one: a frame") {
			t.Errorf("problem %+v, %v", p, wrong)
		}
		if crash, err := lastwords.ReadCrash(dir); err != nil || !strings.Contains(crash.Text, "a frame") || crash.Version != "test" {
			t.Errorf("the crash that is kept is %+v, %v", crash, err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if c.Reopen(ctx) || !c.Alone.Is() {
			t.Error("a process that ends opens its network")
		}
		begun := time.Now()
		if !c.Reopen(t.Context()) || c.Alone.Is() || time.Since(begun) != closedTime {
			t.Errorf("the network is opened after %v", time.Since(begun))
		}
	})
}
