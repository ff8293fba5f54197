package backoff

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/internal/bubble"
)

func TestBackoff(t *testing.T) {
	b := Backoff{First: time.Second, Last: 5 * time.Second}
	var got []time.Duration
	for range 4 {
		got = append(got, b.Next())
	}
	b.Reset()
	got = append(got, b.Next())
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, time.Second}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
}

func TestRandomBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shortest := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "shortest"))
		longest := shortest + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		b := Backoff{First: shortest, Last: longest, Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
		for range 2 { // the second time after a reset
			step := shortest
			for range 50 {
				if got := b.Next(); got < step/2 || got > step {
					t.Fatalf("got pause %v, want one within %v and %v", got, step/2, step)
				}
				step = min(2*step, longest)
			}
			b.Reset()
		}
	})
}

func TestSleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name       string
			d, end     time.Duration // the sleep, and when ctx ends; zero: never
			wake       time.Duration // zero: never
			took       time.Duration
			stillLives bool
		}{
			{"all of it", time.Minute, 0, 0, time.Minute, true},
			{"woken", time.Minute, 0, time.Second, time.Second, true},
			{"ended", time.Minute, time.Second, 0, time.Second, false},
			{"nothing to wait for", 0, 0, 0, 0, true},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if tt.end > 0 {
				time.AfterFunc(tt.end, cancel)
			}
			wake := make(chan struct{}, 1)
			if tt.wake > 0 {
				time.AfterFunc(tt.wake, func() { wake <- struct{}{} })
			}
			begun := time.Now()
			if lives := Sleep(ctx, tt.d, wake); lives != tt.stillLives || time.Since(begun) != tt.took {
				t.Errorf("%s: %v after %v", tt.name, lives, time.Since(begun))
			}
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if Sleep(ctx, 0, nil) {
			t.Error("a context that has ended lives")
		}
	})
}
