package pace_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/pace"
)

// Whoever waits for ten seconds or more wakes with all others, and nobody much sooner or later than it wanted.
func TestRound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := pace.New()
		time.Sleep(7 * time.Second)
		p.Begin()
		began := time.Now()
		for d := time.Duration(1); d < time.Hour; d += d/7 + time.Millisecond {
			time.Sleep(1234 * time.Millisecond)
			got := p.Round(d)
			if got < d-d/4 || got > d+d/4 {
				t.Errorf("%v becomes %v", d, got)
			}
			if within := p.Within(d); within < d/2 || within > d {
				t.Errorf("within %v becomes %v", d, within)
			} else if off := (time.Since(began) + within) % pace.Period; off != 0 && (d >= 2*pace.Period || within != d) {
				t.Errorf("within %v becomes %v, which ends %v after a beat", d, within, off)
			}
			if off := (time.Since(began) + got) % pace.Period; off != 0 && (d >= 2*pace.Period || got != d) {
				t.Errorf("%v becomes %v, which ends %v after a beat", d, got, off)
			}
		}
	})
}

// A beat that has just been is not awaited again.
func TestRoundFromABeatOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, began := pace.New(), time.Now()
		for range 100 {
			time.Sleep(p.Round(2*pace.Period) + time.Millisecond) // as a busy process
		}
		if want := 1000*time.Second + time.Millisecond; time.Since(began) != want {
			t.Errorf("a hundred times ten seconds take %v, want %v", time.Since(began), want)
		}
	})
}

func TestNoPace(t *testing.T) {
	var none *pace.Pace
	none.Begin()
	for _, d := range []time.Duration{-1, 0, time.Minute} {
		if got, within := none.Round(d), none.Within(d); got != d || within != d {
			t.Errorf("%v becomes %v and %v", d, got, within)
		}
	}
}
