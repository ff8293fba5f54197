package dockerd

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/go-connections/nat"
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
			"c1": {Service: Service{"shop", "web"}, Labels: map[string]string{labelProject: "shop"}}, "c2": {},
			"c3": {Service: Service{"shop", "db"}, Labels: map[string]string{labelProject: "shop", "team": "x", "team.lead": ""}},
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

// Of containers of a service that have started the engine is asked for their ports, and of no others. One of which it does not
// tell has none yet, and holds up nobody for long.
func TestPorts(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		web := map[string]string{labelProject: "shop", labelService: "web"}
		b.labels = map[string]map[string]string{"starts": web, "runs": web, "bare": web, "odd": web, "alone": nil}
		b.exposed = map[string][]nat.Port{"runs": {"443/udp", "443/tcp", "80/tcp", "80/tcp"}, "bare": nil, "odd": {"0/tcp", "9000-9001/tcp", "99999/tcp", "53/udp"}, "alone": {"1/tcp"}}
		b.startPipes()
		b.want(b.after(time.Second), 1)
		ids := []string{"starts", "runs", "bare", "odd", "alone"}
		got, err := b.w.Containers(b.t.Context(), ids)
		service := Service{"shop", "web"}
		want := map[string]Container{
			"starts": {Service: service}, "bare": {Service: service, Started: true}, "alone": {},
			"runs": {Service: service, Started: true, Ports: []Port{{80, "tcp"}, {443, "tcp"}, {443, "udp"}}},
			"odd":  {Service: service, Started: true, Ports: []Port{{53, "udp"}}},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		b.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/containers/runs/json") {
				return false
			}
			<-r.Context().Done() // another request has the container's lock
			return true
		})
		begun := time.Now()
		got, err = b.w.Containers(b.t.Context(), ids)
		if c := got["runs"]; err != nil || c.Started || c.Service != service || !got["odd"].Started || time.Since(begun) > 2*portsTime {
			t.Errorf("after %v: %v, %+v", time.Since(begun), err, got)
		}
	})
}
