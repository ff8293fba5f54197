package cli

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// Where a host says that something is wrong there, the list of hosts has a column for that.
func TestPeersOfWhichOneFails(t *testing.T) {
	f := troubled()
	f.st.Verdict, f.st.Problems = ipam.Fine, nil
	list := func() string { return ringlet(t, Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}, "peers").out }
	if out := list(); strings.Contains(out, "VERDICT") {
		t.Errorf("all is well, and the list says\n%s", out)
	}
	other := f.st.Peers[1]
	f.st.Peers[1].Failed = true
	out := list()
	for line := range strings.Lines(out) {
		if is := strings.HasPrefix(line, other.Name); is != strings.Contains(line, "failed") {
			t.Errorf("%s fails, and the list says\n%s", other.Name, out)
		}
	}
	if !strings.Contains(out, "VERDICT") {
		t.Errorf("no column says that a host fails:\n%s", out)
	}
}
