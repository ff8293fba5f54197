package main

import (
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// An engine that answers, but never all, is a problem after a minute: until it
// does, nothing that it lacks is freed.
func TestIncompleteListsAreAProblem(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		st := dockerd.State{Connected: true, Since: time.Now(), LastError: "/networks/n2: datastore is broken", Failing: time.Now()}
		time.Sleep(time.Minute)
		if p, wrong := engineProblem(st); wrong {
			t.Errorf("a problem at once: %+v", p)
		}
		time.Sleep(time.Second)
		p, wrong := engineProblem(st)
		if !wrong || p.Code != "inventory-incomplete" || !strings.Contains(p.Text, "for 1m1s (/networks/n2: datastore is broken)") {
			t.Errorf("got %+v, %v", p, wrong)
		}
		st.Failing, st.LastError = time.Time{}, ""
		if p, wrong := engineProblem(st); wrong {
			t.Errorf("all is well: %+v", p)
		}
	})
}
