package standby

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// While it stands in, the engine and operators are told why, once for each reason; what changes anything is refused with it.
func TestStandby(t *testing.T) {
	var log plugintest.Log
	var explained []string
	var shown []admin.Backend
	broken := false
	other := &fault.Fault{Logger: log.Logger(), Code: "http-unavailable", Text: error.Error}
	other.Set(errors.New("the port is in use"))
	s := New(Config{
		Host: "host-a", Logger: log.Logger(), Explain: func(why error) { explained = append(explained, why.Error()) },
		Watcher: func() (*dockerd.Watcher, error) { return dockerd.New(dockerd.Config{}) },
		Show: func(b admin.Backend, w *dockerd.Watcher) error {
			if shown = append(shown, b); w == nil || broken {
				return errors.New("cannot be shown")
			}
			return nil
		},
		Faults: func() []*fault.Fault { return []*fault.Fault{other} },
	})
	if s.EngineAnswers() {
		t.Error("an engine that nobody watches answers")
	}
	s.End() // as at each start
	for range 2 {
		s.Begin(errors.New("the disk is full"))
	}
	if len(shown) != 1 || len(explained) != 1 || !strings.Contains(explained[0], "host-a hands out nothing") || !strings.Contains(explained[0], "the disk is full") {
		t.Fatalf("shown %d times, explained by %q", len(shown), explained)
	}
	st, err := shown[0].Status(t.Context())
	if err != nil || st.Verdict != ipam.Failed || len(st.Problems) != 2 || st.Problems[0].Code != Code || st.Problems[1].Code != "http-unavailable" {
		t.Errorf("the status is %+v, %v", st, err)
	}
	for what, err := range map[string]error{
		"rejoin": func() error { _, err := shown[0].Rejoin(t.Context(), false); return err }(),
		"trust":  func() error { _, err := shown[0].Trust(t.Context()); return err }(),
		"join":   func() error { _, err := shown[0].Join(t.Context(), "10.0.0.1"); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%s: %v", what, err)
		}
	}

	broken = true
	s.Begin(errors.New("the file is damaged"))
	if len(shown) != 2 || log.Count("the reason cannot be shown") != 1 {
		t.Errorf("another reason is shown %d times", len(shown)-1)
	}
	s.End()
	if st, err := s.Snapshot(t.Context()); err != nil || len(st.Problems) != 1 {
		t.Errorf("when it has ended the status is %+v, %v", st, err)
	}
}
