package main

import (
	"testing"
	"time"
)

// What tells one start of the host from another stays as it is.
func TestStartOfTheHost(t *testing.T) {
	boot, at := hostBoot(), hostStart()
	if boot == "" || at.IsZero() || !at.Before(time.Now()) {
		t.Errorf("start %q of the host was at %v", boot, at)
	}
	if again := hostBoot(); again != boot {
		t.Errorf("start %q of the host, then %q", boot, again)
	}
	if d := hostStart().Sub(at); d.Abs() > 10*time.Millisecond {
		t.Errorf("the host started at %v, then %v later", at, d)
	}
}
