package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Networks that lose packets, or carry them one way only, and plugins that are killed at work. Each peer needs a decision
// of all for every few addresses, since nothing is dealt out beforehand.
func TestClusterWeather(t *testing.T) {
	t.Parallel()
	need(t, "pkill")
	c := NewCluster(t, 3, "RINGLET_DEAL=none", "RINGLET_CHUNK=8", "RINGLET_REST=5s")
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", "10.52.0.0/24", "--ipam-opt", "gateway=first")
	}
	c.lossy()
	c.oneWay()
	c.withoutUDP()
	c.killed()
}

// drop loses what matches the rule of what the host receives, until the function that it returns is called.
func (e *Engine) drop(rule ...string) (undo func()) {
	e.t.Helper()
	rule = append(append([]string{"INPUT", "-i", "eth0"}, rule...), "-j", "DROP")
	e.Run("iptables", append([]string{"--wait", "-I"}, rule...)...)
	return func() { e.Run("iptables", append([]string{"--wait", "-D"}, rule...)...) }
}

// One packet in twenty is lost, on the way in to each of three: everything takes longer, and works.
func (c *Cluster) lossy() {
	c.t.Helper()
	var undo []func()
	for _, e := range c.Engines {
		undo = append(undo, e.drop("-m", "statistic", "--mode", "random", "--probability", "0.05"))
	}
	c.crowd(c.Engines, "lan", "lossy", 6)
	c.union("while packets are lost")
	for _, f := range undo {
		f()
	}
	c.AwaitReady(c.Engines...)
}

// One host does not hear another, which hears it. The third hears both.
func (c *Cluster) oneWay() {
	c.t.Helper()
	undo := c.Engines[0].drop("-s", hostAt(1).String())
	c.crowd(c.Engines, "lan", "deaf", 6)
	c.union("while one is deaf to another")
	undo()
	c.AwaitReady(c.Engines...)
}

// A firewall lets TCP through, and no UDP.
func (c *Cluster) withoutUDP() {
	c.t.Helper()
	var undo []func()
	for _, e := range c.Engines {
		undo = append(undo, e.drop("-p", "udp"))
	}
	c.crowd(c.Engines, "lan", "tcp", 6)
	c.union("without UDP")
	for _, f := range undo {
		f()
	}
	c.AwaitReady(c.Engines...)
}

// Plugins are killed while containers start. Some of these fail: the engine repeats a request whose connection broke
// without its body. No address is lost or given twice by that.
func (c *Cluster) killed() {
	t := c.t
	t.Helper()
	for _, e := range c.Engines {
		for _, prefix := range []string{"lossy", "deaf"} {
			if err := disperse(e, prefix); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := make(chan []error)
	go func() { done <- crowd(c.Engines, "lan", "killed", 12) }() // ends with its commands
	for i, e := range c.Engines {
		Eventually(t, readyLimit, "some containers run", func() bool {
			return strings.Count(strings.Join(containers(e), " "), "killed-") > 2*i
		})
		e.Run("pkill", "-KILL", "-x", "ringlet")
	}
	for _, err := range <-done {
		t.Log(err)
	}
	c.AwaitReady(c.Engines...) // the last may just be starting again
	c.union("after plugins were killed")
	for i, e := range c.Engines {
		runDemo(e, "lan", fmt.Sprint("after-", i))
	}
	c.union("after plugins have started again")
}
