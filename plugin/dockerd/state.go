package dockerd

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// noSocket is what State says where there is no engine to ask.
const noSocket = "no docker socket: relying on the engine's replay"

// State is how the watcher stands with its engine, for people to read. The
// facts about the engine are those of the last connection, and stay when it is
// lost.
type State struct {
	Socket string // as configured; empty where there is none

	Connected bool      // the engine answers, and its event stream is open
	Since     time.Time // when Connected last changed; zero before Run

	Engine        string   // the engine's own ID
	EngineVersion string   // like "28.5.2"
	APIVersion    string   // as negotiated, like "1.41"
	Names         []string // the IPAM driver names that are ours, ordered

	LastLook time.Time     // end of the last complete look; zero before the first
	Took     time.Duration // how long that one took

	// Failing is when the looks of this connection began to be incomplete, or not
	// accepted, without a good one since; zero if the last one was good, or there is
	// no connection.
	Failing time.Time

	// LastError says in plain words what is wrong: why there is no connection,
	// or why the last look was not complete or not accepted. Empty when all is
	// well.
	LastError string
}

// State returns how things stand now. It is safe for concurrent use and never
// blocks.
func (w *Watcher) State() State {
	s := *w.state.Load()
	s.Names = slices.Clone(s.Names)
	return s
}

// change replaces the state by an edited copy. Only Run, and New before it,
// call it, so no edit can be lost.
func (w *Watcher) change(edit func(*State)) {
	s := *w.state.Load()
	edit(&s)
	w.state.Store(&s)
}

// Major returns the first number of the engine's version, false if there is none.
func (s State) Major() (n int, known bool) {
	major, _, _ := strings.Cut(s.EngineVersion, ".")
	n, err := strconv.Atoi(major)
	return n, err == nil
}

// HasSocket reports whether there is a file at the path of an engine's socket.
func HasSocket(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}
