package admin

import (
	"context"
	"strings"
	"testing"
)

// around is a process for tests.
type around struct{ changes []KeyChange }

func (*around) About(context.Context) (About, error) {
	return About{
		Version: "v1", Settings: map[string]string{"name": "host-a"},
		Engine: AboutEngine{Names: []string{}}, Network: AboutNetwork{Problems: []string{}},
	}, nil
}

func (*around) Log() []byte   { return []byte("level=info msg=x\n") }
func (*around) Crash() []byte { return []byte("2026-11-20T09:00:00Z\nv1.0.0\npanic: an example\n") }

func (*around) Keys(context.Context) (Keys, error) {
	return Keys{Source: "file", Keys: []Key{{"0a1b2c3d", true}}}, nil
}

func (a *around) ChangeKeys(_ context.Context, c KeyChange) (Keys, error) {
	a.changes = append(a.changes, c)
	return a.Keys(context.Background())
}

// Keys and the log do not go over TCP, whoever asks; all else may be read there.
func TestWhatStaysOnTheSocket(t *testing.T) {
	doc := readDocument(t)
	for _, tt := range []struct {
		name        string
		cfg         Config
		log, change int
	}{
		{"the socket", Config{}, 200, 200},
		{"read-only", Config{Remote: true}, 403, 403},
		{"with a token", Config{Remote: true, Token: "hush"}, 403, 403},
	} {
		p := &around{}
		tt.cfg.Backend, tt.cfg.Process = newMemory(), p
		s, _ := logged(t, tt.cfg)
		for _, r := range []struct {
			method, path, body string
			want               int
		}{
			{"GET", "/v1/about", "", 200},
			{"GET", "/v1/keys", "", 200},
			{"GET", "/v1/log", "", tt.log},
			{"GET", "/v1/crash", "", tt.log},
			{"POST", "/v1/keys", `{"step":"add","key":"x"}`, tt.change},
		} {
			w, _ := ask(t.Context(), s.Handler(), r.method, r.path, strings.NewReader(r.body), "Authorization", "Bearer hush")
			if w.Code != r.want {
				t.Errorf("%s: %s %s: %d %s", tt.name, r.method, r.path, w.Code, w.Body)
			}
			doc.checkExchange(t, r.method, r.path, r.body, w.Code, w.Header(), w.Body.String())
		}
		if (len(p.changes) == 1) != (tt.change == 200) {
			t.Errorf("%s: changed %v", tt.name, p.changes)
		}
	}
	s, _ := logged(t, Config{Backend: newMemory()})
	if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/about", nil); w.Code != 404 {
		t.Errorf("without a process: %d", w.Code)
	}
}
