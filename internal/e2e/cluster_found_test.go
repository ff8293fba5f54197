package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

// Hosts that are installed alike and started at once found a cluster together; then they lose their power together.
func TestClusterFounded(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3, "RINGLET_TIMEOUT=15s")
	for _, e := range c.Engines {
		e.CreatePlugin(Plugin, append(c.more, "RINGLET_KEY="+c.Key, "RINGLET_JOIN=host-a,host-b,host-c")...)
		e.ImportDemo()
	}
	c.enable(c.Engines...)
	c.AwaitReady(c.Engines...)
	c.allOff()
	c.damaged(c.Engines[0], c.Engines[2])

	// Anew, with a bare number: whoever knows of another finds the third, too.
	for i, e := range c.Engines {
		for _, name := range containers(e) {
			e.Docker("rm", "--force", name)
		}
		e.Docker("network", "rm", "lan")
		e.Docker("plugin", "rm", "--force", Plugin)
		settings := append(c.more, "RINGLET_KEY="+c.Key, "RINGLET_BOOTSTRAP=3")
		if i > 0 {
			settings = append(settings, "RINGLET_JOIN=host-a")
		}
		e.CreatePlugin(Plugin, settings...)
	}
	a := c.Engines[0]
	c.enable(a)
	_, err := a.TryDocker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.60.0.0/24", "early")
	refused(t, err, "waits for the other hosts", "majority of the 3 hosts")
	if st, err := a.Status(); err != nil || st.State != "forming" {
		t.Errorf("one of three is %s, want forming: %v", st.State, err)
	}
	c.enable(c.Engines[1:]...)
	c.AwaitReady(c.Engines...)
	for _, e := range c.Engines {
		e.lan("lan", lanSubnet)
	}
	c.crowd(c.Engines, "lan", "founded", 3)
	c.union("in a cluster of a bare number")
}

// enable enables the plugins of all at once.
func (c *Cluster) enable(engines ...*Engine) {
	c.t.Helper()
	var calls []func() error
	for _, e := range engines {
		calls = append(calls, func() error {
			_, err := e.TryDocker("plugin", "enable", Plugin)
			return err
		})
	}
	if err := errors.Join(atOnce(calls...)...); err != nil {
		c.t.Fatal(err)
	}
}

// allOff takes the power from all hosts while containers run that start with their hosts. The first engine comes up
// before there is a majority.
func (c *Cluster) allOff() {
	t := c.t
	t.Helper()
	before := map[string]netip.Addr{}
	for i, e := range c.Engines {
		e.lan("lan", lanSubnet)
		for k := range 3 {
			e.Docker("run", "--detach", "--restart", "always", "--name", fmt.Sprint("any-", k), "--network", "lan", Demo)
		}
		e.Docker("run", "--detach", "--restart", "always", "--name", "fixed", "--network", "lan", "--ip", fmt.Sprintf("10.50.20%d.1", i), Demo)
		e.withMAC("mac", "lan", fmt.Sprintf("02:aa:bb:cc:dd:%02x", i))
		for _, name := range []string{"fixed", "mac"} {
			before[e.Name+name] = sameAddress(e, "lan", name)
		}
	}
	c.union("before the power goes")
	for _, e := range c.Engines {
		e.PowerOff()
	}
	for _, e := range c.Engines {
		e.Up()
		for _, name := range []string{"fixed", "mac", "any-0", "any-1", "any-2"} {
			got := sameAddress(e, "lan", name)
			if want, kept := before[e.Name+name]; kept && got != want {
				t.Errorf("%s on %s has %v, it had %v", name, e.Name, got, want)
			}
		}
	}
	c.AwaitReady(c.Engines...)
	c.crowd(c.Engines, "lan", "later", 3)
	if got := len(c.union("after the power came back")); got != 3*(5+3) {
		t.Errorf("%d addresses are in use, want %d", got, 3*(5+3))
	}
}

// damaged destroys the database of a host. It joins again, though it is one of those that found the cluster, and takes
// nothing that another has.
func (c *Cluster) damaged(e, other *Engine) {
	t := c.t
	t.Helper()
	e.Docker("plugin", "disable", "--force", Plugin)
	data := "/var/lib/docker/plugins/" + e.PluginID(Plugin) + "/propagated-mount"
	e.Run("dd", "if=/dev/urandom", "of="+data+"/ringlet.db", "bs=4096", "count=3", "seek=1", "conv=notrunc")
	e.Docker("plugin", "set", Plugin, patient)
	e.Docker("plugin", "enable", Plugin)
	theirs := other.Address("fixed", "lan").String()
	errs := atOnce(func() error { return claim(e, theirs) }, func() error {
		return errors.Join(crowd([]*Engine{e}, "lan", "damaged", 3)...)
	})
	holds(t, errs[0], theirs, "container fixed")
	if errs[1] != nil {
		t.Error(errs[1])
	}
	e.Run("find", data, "-name", "ringlet.db.damaged-*", "-delete") // until then it is a problem of the status
	c.AwaitReady(c.Engines...)
	c.union("after a database was lost")
}

// withMAC starts a container with a MAC of its own that starts with its host. Through the API: a newer command line
// refuses to send one for a network to an engine before 25.
func (e *Engine) withMAC(name, network, mac string) {
	e.t.Helper()
	need(e.t, "curl")
	body := fmt.Sprintf(`{"Image":%q,"MacAddress":%q,"HostConfig":{"NetworkMode":%q,"RestartPolicy":{"Name":"always"}}}`, Demo, mac, network)
	e.Run("curl", "--silent", "--show-error", "--fail", "--unix-socket", "/run/docker.sock", "--header", "Content-Type: application/json",
		"--data", body, "http://engine/v1.41/containers/create?name="+name)
	e.Docker("start", name)
}
