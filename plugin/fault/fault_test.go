package fault

import (
	"errors"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// A fault is news when it comes, changes and goes, and not in between.
func TestFaultIsLoggedOncePerChange(t *testing.T) {
	var log plugintest.Log
	f := &Fault{Logger: log.Logger(), Code: "broken", Text: func(err error) string { return "broken: " + err.Error() }, Next: "mend it"}
	one, two := errors.New("one"), errors.New("two")
	for _, err := range []error{nil, one, one, two, two, nil, nil, one, nil} {
		f.Set(err)
		p, wrong := f.Problem()
		if wrong != (err != nil) || wrong != f.Is() || wrong && (p.Text != "broken: "+err.Error() || p.Code != "broken" || p.Next != "mend it" || p.Level != string(ipam.Degraded)) {
			t.Errorf("after %v the problem is %+v", err, p)
		}
	}
	if began, ended := log.Count("problem began"), log.Count("problem ended"); began != 3 || ended != 2 {
		t.Errorf("%d lines say that it began and %d that it ended, want 3 and 2", began, ended)
	}
}

// What is looked at when somebody asks, and says what to do by what it finds.
func TestFaultThatIsLookedAt(t *testing.T) {
	var log plugintest.Log
	err := errors.New("open")
	f := &Fault{
		Logger: log.Logger(), Code: "a", Level: ipam.Failed, Look: func() error { return err },
		Text: error.Error, NextOf: func(err error) string { return "mend " + err.Error() },
	}
	well := &Fault{Logger: log.Logger(), Code: "b"}
	if got := Problems(well, f); len(got) != 1 || got[0] != (ipam.Problem{Code: "a", Level: string(ipam.Failed), Text: "open", Next: "mend open"}) {
		t.Errorf("the problems are %+v", got)
	}
	err = nil
	if got := Problems(f, well); len(got) != 0 {
		t.Errorf("the problems are %+v", got)
	}
}
