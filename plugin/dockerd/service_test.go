package dockerd

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServiceOf(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   Service
	}{
		"none":                {nil, Service{}},
		"compose":             {map[string]string{labelProject: "shop", labelService: "web"}, Service{"shop", "web"}},
		"a project alone":     {map[string]string{labelProject: "shop"}, Service{}},
		"stack":               {map[string]string{labelStack: "shop", labelSwarmService: "shop_web"}, Service{"shop", "web"}},
		"swarm without stack": {map[string]string{labelSwarmService: "web"}, Service{noStack, "web"}},
		"stack above compose": {map[string]string{labelProject: "x", labelService: "y", labelStack: "shop", labelSwarmService: "shop_web"}, Service{"shop", "web"}},
	} {
		if got := serviceOf(c.labels); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// The engine is asked in one call, and not at all while there is none.
func TestContainers(t *testing.T) {
	inBubble(t, Config{Labels: []string{labelProject, "team*"}}, func(b *bench) {
		if _, err := b.w.Containers(b.t.Context(), []string{"c1"}); !errors.Is(err, errNoEngine) {
			t.Errorf("without an engine: %v", err)
		}
		b.labels = map[string]map[string]string{"c1": {labelProject: "shop", labelService: "web"}, "c2": nil, "c3": {labelProject: "shop", labelService: "db", "team": "x", "team.lead": "", "tea": "y"}}
		b.startPipes()
		b.want(b.after(time.Second), 1)
		got, err := b.w.Containers(b.t.Context(), []string{"c1", "c2", "c3", "gone"})
		if diff := cmp.Diff(map[string]Container{
			"c1": {Service{"shop", "web"}, map[string]string{labelProject: "shop"}}, "c2": {},
			"c3": {Service{"shop", "db"}, map[string]string{labelProject: "shop", "team": "x", "team.lead": ""}},
		}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		if n := b.count("/containers/json"); n != 1 {
			t.Errorf("%d calls", n)
		}
		b.breakWith(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		if _, err := b.w.Containers(b.t.Context(), []string{"c1"}); err == nil {
			t.Error("an error of the engine is none")
		}
	})
}
