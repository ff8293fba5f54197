package peers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// Two machines were made from one image, and nothing tells them apart: one ID, one name of the machine, one number of the file.
// As soon as they meet both hand out nothing, and say which command ends that.
func TestClonesNoticeEachOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: memnet.New(), change: func(_ int, cfg *ipam.Config) { cfg.Place = "one place" }}
		image, clone := t.TempDir(), t.TempDir()
		t.Cleanup(func() {
			for _, h := range c.hosts {
				h.end()
			}
			time.Sleep(2 * time.Minute) // memberlist's last goroutines end some time after its shutdown
		})
		first := c.startIn(image, 1, nil)
		self := c.status(first).Self.ID
		first.end()
		c.hosts = nil
		content, err := os.ReadFile(filepath.Join(image, plugintest.Database))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(clone, plugintest.Database), content, 0o600); err != nil {
			t.Fatal(err)
		}
		c.startIn(image, 1, []string{hostAddr(2).String()})
		c.startIn(clone, 2, []string{hostAddr(1).String()})
		c.until(time.Minute, "both are suspended", func() bool {
			return !slices.ContainsFunc(c.hosts, func(h *clusterHost) bool { return c.status(h).State != ipam.Suspended })
		})
		for _, h := range c.hosts {
			st := c.status(h)
			if st.Self.ID != self || len(st.Problems) == 0 || !strings.Contains(st.Problems[0].Text, "a copy of the other") || !strings.Contains(st.Problems[0].Next, "ringlet rejoin") {
				t.Errorf("%s says %+v", st.Self.Name, st.Problems)
			}
		}
	})
}
