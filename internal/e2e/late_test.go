package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A container is removed while the plugin is away: the engine strikes it off its list at once, and tries for 15 seconds to
// release its address. The plugin is back in between, and another container takes the address over. The release that
// comes then is not its own.
func TestEngineLateRelease(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin("LOG_LEVEL=debug")
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	const address = "10.77.0.9"
	e.Docker("run", "--detach", "--name", "first", "--network", "net", "--ip", address, Demo)
	e.Docker("create", "--name", "second", "--network", "net", "--ip", address, Demo)
	time.Sleep(65 * time.Second) // so that neither is taken for one that is still in the making
	mark := e.Log.Mark()
	e.Docker("plugin", "disable", "--force", Plugin)
	e.Docker("plugin", "set", Plugin, "RINGLET_TIMEOUT=1s")
	removed := make(chan error, 1)
	go func() {
		_, err := e.TryDocker("rm", "--force", "first")
		removed <- err
	}()
	if _, err := e.Log.Wait(t.Context(), mark, time.Minute, Contains("retrying in 4s")); err != nil {
		t.Fatal(err)
	}
	e.Docker("plugin", "enable", Plugin)
	for begun := time.Now(); ; {
		_, err := e.TryDocker("start", "second")
		if err == nil {
			break
		}
		if time.Since(begun) > 3*time.Second {
			t.Skipf("skipped: the second container did not start before the release came: %v", err)
		}
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	for _, l := range e.Log.Since(mark) {
		if strings.Contains(l.Msg, "address freed") && strings.Contains(l.Msg, "name=second") {
			t.Errorf("anybody can have the address of a container that runs: %s", l.Msg)
		}
	}
	if got := sameAddress(e, "net", "second"); got != netip.MustParseAddr(address) {
		t.Errorf("the second has %v", got)
	}
	same(e, "after the release")
}
