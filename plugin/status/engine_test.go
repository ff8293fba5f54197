package status

import (
	"path/filepath"
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
		if p, wrong := engineProblem(st, EngineAccess{InPlugin: true}, true); wrong {
			t.Errorf("a problem at once: %+v", p)
		}
		time.Sleep(time.Second)
		p, wrong := engineProblem(st, EngineAccess{InPlugin: true}, true)
		if !wrong || p.Code != "inventory-incomplete" || !strings.Contains(p.Text, "for 1m1s (/networks/n2: datastore is broken)") {
			t.Errorf("got %+v, %v", p, wrong)
		}
		st.Failing, st.LastError = time.Time{}, ""
		if p, wrong := engineProblem(st, EngineAccess{InPlugin: true}, true); wrong {
			t.Errorf("all is well: %+v", p)
		}
	})
}

// What is wrong with the way to the engine is told with what mends it there: in a plugin
// that is its mount, outside an option. An engine whose socket is named and that is down
// is one that does not answer, though its socket is gone: it will be back.
func TestEngineOutOfSightIsAProblem(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gone := filepath.Join(t.TempDir(), "docker.sock")
		for _, c := range []struct {
			name       string
			socket     string
			how        EngineAccess
			code, next string
		}{
			{"plugin", gone, EngineAccess{InPlugin: true}, "no-docker-socket", "mount docker"},
			{"outside, none", "", EngineAccess{}, "no-docker-socket", "--docker-socket"},
			{"outside, default", gone, EngineAccess{}, "no-docker-socket", "--docker-socket"},
			{"outside, named", gone, EngineAccess{Named: true}, "engine-unreachable", "--docker-socket"},
			{"plugin, no network", gone, EngineAccess{InPlugin: true, idle: true}, "no-docker-socket", "mount docker"},
			{"outside, default, no network", gone, EngineAccess{idle: true}, "no-docker-socket", "--docker-socket"},
		} {
			st := dockerd.State{Socket: c.socket, Since: time.Now(), LastError: "no such file"}
			time.Sleep(11 * time.Second)
			if p, wrong := engineProblem(st, c.how, true); !wrong || p.Code != c.code || !strings.Contains(p.Next, c.next) {
				t.Errorf("%s: got %+v, %v, want %s and %q", c.name, p, wrong, c.code, c.next)
			}
		}
	})
}

// Whoever says that there is no engine is told of none, as long as none has a network here.
func TestWithoutAnEngineNothingIsWrong(t *testing.T) {
	if p, wrong := engineProblem(dockerd.State{}, EngineAccess{idle: true}, true); wrong {
		t.Errorf("got %+v", p)
	}
}

// An engine that is down does not keep addresses from being handed out, which is said
// only where nothing else does, as a new database.
func TestDownEnginePromisesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		st := dockerd.State{Socket: "/run/docker.sock", Since: time.Now(), LastError: "there is no docker socket"}
		time.Sleep(11 * time.Second)
		const reason, promise = "the engine's list cannot be read: there is no docker socket", "; this host still hands out addresses"
		for fine, want := range map[bool]string{true: reason + promise, false: reason} {
			if p, wrong := engineProblem(st, EngineAccess{Named: true}, fine); !wrong || p.Text != want {
				t.Errorf("all else fine: %v: got %q, want %q", fine, p.Text, want)
			}
		}
	})
}
