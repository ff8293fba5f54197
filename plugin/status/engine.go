package status

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// EngineAccess is how this process comes to see its engine.
type EngineAccess struct {
	InPlugin bool // through the mount of a managed plugin
	Named    bool // through the socket that --docker-socket names
	idle     bool // no engine has a network here
}

// engineProblem returns what an operator should know of the connection to the
// engine; false if nothing is wrong. All else is fine, or it is not sure that
// addresses are handed out.
func engineProblem(engine dockerd.State, how EngineAccess, fine bool) (ipam.Problem, bool) {
	name, look := "set the plugin's mount docker to a directory with docker.sock in it", "the plugin's mount docker has its directory"
	if !how.InPlugin {
		name, look = "name the engine's socket with --docker-socket", "it listens on the socket that --docker-socket names"
	}
	switch {
	case engine.Socket == "" && !how.InPlugin && how.idle: // --docker-socket says that there is none
	case !engine.Connected && !how.Named && !dockerd.HasSocket(engine.Socket):
		return ipam.Problem{
			Code: "no-docker-socket", Level: string(ipam.Degraded),
			Text: "this host cannot ask its engine which containers exist, and relies on what the engine replays when it starts",
			Next: name + ", so that addresses of containers that vanish are freed",
		}, true
	case !engine.Connected && !engine.Since.IsZero() && time.Since(engine.Since) > 10*time.Second:
		text := "the engine's list cannot be read: " + engine.LastError
		if fine {
			text += "; this host still hands out addresses"
		}
		return ipam.Problem{
			Code: "engine-unreachable", Level: string(ipam.Degraded), Text: text,
			Next: "check that the engine runs, and that " + look,
		}, true
	case engine.Connected && !engine.Failing.IsZero() && time.Since(engine.Failing) > longIncomplete:
		return ipam.Problem{
			Code: "inventory-incomplete", Level: string(ipam.Degraded),
			Text: fmt.Sprintf("the engine's list has been incomplete for %v (%s): until it is complete, addresses of containers that vanish are not freed", time.Since(engine.Failing).Round(time.Second), engine.LastError),
			Next: "check that docker network inspect answers for each network; if it does not, restart the engine",
		}, true
	}
	return ipam.Problem{}, false
}

// longIncomplete is how long looks at the engine may fail before that is a
// problem: one that is busy, or makes networks one after the other, soon answers.
const longIncomplete = time.Minute
