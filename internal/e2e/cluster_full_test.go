package e2e

import (
	"fmt"
	"strings"
	"testing"
)

const (
	smallSubnet = "10.51.0.0/26"
	smallRoom   = 64 - 3 // less the network's address, the broadcast and the gateway

	// Where containers use up all there is: a hundred that start take minutes on a slow machine.
	tinySubnet = "10.51.0.0/27"
	tinyRoom   = 32 - 3
)

// A small pool that three hosts share: it is used up to its last address, which any of them can have, whatever the
// network between them did meanwhile.
func TestClusterFull(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3, "RINGLET_REST=10s")
	c.Install()
	for _, e := range c.Engines {
		e.lan("small", tinySubnet, "--ipam-opt", "gateway=first")
	}
	c.storm()
	c.full()
	c.freed()
	c.leftToOthers()
}

// Cables are pulled and put back while containers come and go. Some do not start, and the union is free of duplicates
// nevertheless.
func (c *Cluster) storm() {
	c.t.Helper()
	done := make(chan []error)
	go func() { // ends with its commands
		var errs []error
		for round := range 2 {
			errs = append(errs, crowd(c.Engines, "small", fmt.Sprint("storm", round), 4)...)
		}
		done <- errs
	}()
	for i := 0; ; i++ {
		e := c.Engines[i%3]
		c.Cut(e)
		_, err := c.Engines[(i+1)%3].Status() // a moment that is filled with something
		c.Heal(e)
		if err != nil {
			c.t.Error(err)
		}
		select {
		case errs := <-done:
			for _, err := range errs {
				c.t.Log(err)
			}
			c.union("during a storm")
			c.AwaitReady(c.Engines...)
			c.union("after a storm")
			return
		default:
		}
	}
}

// The last address is given out, and then the answer is no, on each host.
func (c *Cluster) full() {
	t := c.t
	t.Helper()
	room := tinyRoom - len(c.union("before the pool is full"))
	const over = 2
	errs := crowd(c.Engines, "small", "full", (room+over)/3+1)
	if got := len(c.union("with the pool full")); got != tinyRoom {
		t.Errorf("%d addresses are in use, want %d", got, tinyRoom)
	}
	if want := 3*((room+over)/3+1) - room; len(errs) != want {
		t.Errorf("%d containers did not start, want %d", len(errs), want)
	}
	for _, err := range errs {
		refused(t, err, "no free address in "+tinySubnet)
	}
	for _, e := range c.Engines {
		_, err := e.TryDocker("run", "--rm", "--network", "small", Demo)
		refused(t, err, "no free address in "+tinySubnet+": of 32 addresses", "are in use on this host", "are other hosts'")
	}
}

// containers returns the names of an engine's running containers.
func containers(e *Engine) []string {
	e.t.Helper()
	return strings.Fields(e.Docker("ps", "--format", "{{.Names}}"))
}

// What one host frees another can have at once, without waiting for its rest.
func (c *Cluster) freed() {
	c.t.Helper()
	from, to := c.Engines[0], c.Engines[2]
	n := len(containers(from))
	from.Docker(append([]string{"rm", "--force"}, containers(from)...)...)
	c.crowd([]*Engine{to}, "small", "moved", n)
	if got := len(c.union("after addresses have moved")); got != tinyRoom {
		c.t.Errorf("%d addresses are in use, want %d", got, tinyRoom)
	}
}

// A host leaves, and the others have all of its space.
func (c *Cluster) leftToOthers() {
	c.t.Helper()
	gone := c.Engines[1]
	n := len(containers(gone))
	c.empty(gone, "small")
	gone.Ringlet("drain")
	gone.Ringlet("leave")
	gone.Docker("plugin", "rm", "--force", Plugin)
	rest := c.Others(gone)
	c.AwaitReady(rest...)
	c.crowd(rest[:1], "small", "inherited", n)
	if got := len(c.union("after one has left", rest...)); got != tinyRoom {
		c.t.Errorf("%d addresses are in use, want %d", got, tinyRoom)
	}
}
