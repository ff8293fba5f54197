package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestExplore(t *testing.T) {
	c := NewCluster(t, 3, "RINGLET_DEAL=none", "RINGLET_CHUNK=8", "RINGLET_REST=5s", "LOG_LEVEL=debug")
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", "10.52.0.0/24", "--ipam-opt", "gateway=first")
	}
	for _, e := range c.Engines {
		e.drop("-m", "statistic", "--mode", "random", "--probability", os.Getenv("LOSS"))
	}
	for k := range 30 {
		e := c.Engines[k%3]
		begun := time.Now()
		_, err := e.TryRinglet("pool", "create", fmt.Sprintf("10.53.%d.0/24", k))
		t.Log(e.Name, time.Since(begun).Round(time.Millisecond), err)
	}
}
