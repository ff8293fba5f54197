package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var wholeLease = flag.Bool("whole-lease", false, "TestClusterEtcd waits until the lease of a dead host ends in etcd by itself, 15 minutes")

const (
	// etcdLease is how long etcd keeps the keys of a host that is dead.
	etcdLease = 15 * time.Minute
	// putBack is how long it may take until etcd has again what somebody removed or changed.
	putBack = 10 * time.Second
	// nextVoter is how long it may take until the next voter has what is agreed: that of the heartbeat, a minute, and some.
	nextVoter = 75 * time.Second
)

// etcdAt is where hosts of a cluster find its etcd.
var etcdAt = netip.MustParseAddr("192.168.50.99")

// K5: an etcd has what three hosts show, and has it again after it was harmed. The keys of a host that is dead stay until its
// lease ends. K7: another cluster in the same etcd is shown as foreign, and changes nothing.
func TestClusterEtcd(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 4)
	store := NewETCD(t, c.Switch, etcdAt, "http", nil, nil)
	hosts, office := c.Engines[:3], c.Engines[3]
	for _, e := range hosts {
		e.InstallPlugin(append(c.Settings(e), "RINGLET_ETCD="+store.URL)...)
		e.ImportDemo()
	}
	office.InstallPlugin("RINGLET_KEY="+NewKey(), "RINGLET_CLUSTER=office", "RINGLET_ETCD="+store.URL)
	office.ImportDemo()
	c.AwaitReady(hosts...)
	for i, e := range hosts {
		e.lan("lan", lanSubnet, "--gateway", lanGateway)
		for j := range 2 {
			e.Docker("run", "--detach", "--name", fmt.Sprintf("web-%d-%d", i, j), "--network", "lan",
				"--label", "com.docker.compose.project=shop", "--label", "com.docker.compose.service=web", Demo)
		}
	}
	job, err := hosts[1].spawn(t.Output(), Built(t, "ringlet"), "lock", "job", "--", "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	store.hasAllKinds(hosts)
	c.otherCluster(store, hosts, office)
	c.harmed(store, hosts)
	if err := job.end("TERM"); err != nil {
		t.Fatal(err)
	}
	Eventually(t, directoryLimit, "etcd has no key of a lock that is free", func() bool { // until then all the hosts may still show it, too
		got, err := store.Keys()
		return err == nil && got["ringlet/locks/ringlet/job"].Value == ""
	})
	store.Mirrors(putBack, "a lock is free", hosts...)
	c.dead(store, hosts)
}

// hasAllKinds checks that etcd has a key of each kind, and that it has what the hosts show.
func (e *ETCD) hasAllKinds(hosts []*Engine) {
	t := e.t
	t.Helper()
	want := []string{
		"ringlet/.cluster/ringlet", "ringlet/.heartbeat/ringlet", "ringlet/locks/ringlet/job", "ringlet/state/pools/v1/ringlet/" + lanSubnet,
		"ringlet/state/identities/v1/ringlet/id/256",
	}
	for _, h := range hosts {
		want = append(want, "ringlet/state/nodes/v1/ringlet/"+h.Name, "ringlet/state/services/v1/ringlet/shop/web/"+h.Name,
			"ringlet/state/identities/v1/ringlet/value/com.docker.compose.project=shop;com.docker.compose.service=web/"+h.Name)
		for _, a := range endpoints(h) {
			want = append(want, "ringlet/state/ip/v1/ringlet/"+a.String())
		}
	}
	for _, key := range want {
		Eventually(t, directoryLimit, "etcd has "+key, func() bool {
			got, err := e.Keys()
			return err == nil && got[key].Value != ""
		})
	}
	e.Mirrors(directoryLimit, "at the beginning", hosts...)
	got, err := e.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		fmt.Fprintln(t.Output(), key, got[key].Value)
	}
}

// otherCluster has a host of another cluster use the addresses of this one, on a network that is no other host's.
func (c *Cluster) otherCluster(store *ETCD, hosts []*Engine, office *Engine) {
	t := c.t
	t.Helper()
	c.AwaitReady(office)
	office.Docker("network", "create", "--ipam-driver", Plugin, "--subnet", lanSubnet, "desks")
	office.Docker("run", "--detach", "--name", "desk", "--network", "desks", "--label", "com.docker.compose.project=desks", "--label", "com.docker.compose.service=desk", Demo)
	const far = "10.50.77.77"
	office.Docker("run", "--detach", "--name", "far", "--network", "desks", "--ip", far, Demo)
	near := office.Address("desk", "desks").String() // a host of the first cluster may have it, too
	foreign := func(e *Engine, key string) string {
		var items []directoryItem
		if err := e.askPlugin("/v1/kv/"+key, &items); err != nil {
			return err.Error()
		}
		for _, i := range items {
			if i.Owner == "foreign" {
				return ""
			}
		}
		return fmt.Sprint(items)
	}
	ip, node, service := "ringlet/state/ip/v1/office/", "ringlet/state/nodes/v1/office/"+office.Name, "ringlet/state/services/v1/office/desks/desk/"+office.Name
	for _, e := range hosts {
		for _, key := range []string{ip + far, ip + near, node, service} {
			Eventually(t, directoryLimit, e.Name+" shows "+key, func() bool { return foreign(e, key) == "" })
		}
		if out, err := e.TryRinglet("who", far); strings.Contains(out, office.Name) || strings.Contains(out, "held") {
			t.Errorf("%s takes %s for one of its cluster's: %s, %v", e.Name, far, out, err)
		}
		if out := e.Ringlet("ip", "ls", "--all"); strings.Contains(out, office.Name) || strings.Contains(out, far) {
			t.Errorf("%s lists an address of the other cluster:\n%s", e.Name, out)
		}
		if st, err := e.Status(); err != nil || len(st.Peers) != len(hosts) || len(st.Pools) != 1 {
			t.Errorf("%s has %d peers and %d pools: %v", e.Name, len(st.Peers), len(st.Pools), err)
		}
	}
	for _, key := range []string{"ringlet/state/nodes/v1/ringlet/host-b", "ringlet/state/services/v1/ringlet/shop/web/host-b"} {
		Eventually(t, directoryLimit, office.Name+" shows "+key, func() bool { return foreign(office, key) == "" })
	}
	if out, err := office.TryRinglet("kv", "rm", "ringlet/state/nodes/v1/ringlet/host-b"); foreign(office, "ringlet/state/nodes/v1/ringlet/host-b") != "" {
		t.Errorf("a key of the other cluster could be removed: %s, %v", out, err)
	}
	fmt.Fprintln(t.Output(), hosts[0].Ringlet("kv", "get", "--recursive", "ringlet/state/nodes/v1/office/"))

	// What is used there is free here, and what is used here is free there.
	hosts[0].Docker("run", "--detach", "--name", "far", "--network", "lan", "--ip", far, Demo)
	here := hosts[0].Address("web-0-0", "lan").String()
	if here != near {
		office.Docker("run", "--detach", "--name", "here", "--network", "desks", "--ip", here, Demo)
	}
	store.Mirrors(directoryLimit, "both have the same addresses", c.Engines...)
	hosts[0].Docker("rm", "--force", "far")
	office.Docker("rm", "--force", "far")
	for _, e := range hosts {
		Eventually(t, directoryLimit, e.Name+" sees that the other cluster has freed it", func() bool {
			var items []directoryItem
			return e.askPlugin("/v1/kv/"+ip+far, &items) != nil
		})
		same(e, "beside another cluster")
	}
	store.Mirrors(putBack, "it is free again", c.Engines...)

	// A third cluster, with the label of the first one, is refused, and writes nothing.
	c.empty(office, "desks")
	office.Docker("plugin", "rm", "--force", Plugin)
	office.InstallPlugin("RINGLET_KEY="+NewKey(), "RINGLET_ETCD="+store.URL)
	office.hasProblem("etcd-unavailable", "has the label ringlet there")
	if got, err := store.Keys(); err != nil || got["ringlet/state/nodes/v1/ringlet/"+office.Name].Value != "" {
		t.Errorf("a second cluster with the label has written: %v", err)
	}
	store.Mirrors(putBack, "beside a cluster with the same label", hosts...)
	office.Docker("plugin", "rm", "--force", Plugin)
}

// harmed harms what etcd has in several ways, and waits until all of it is back.
func (c *Cluster) harmed(store *ETCD, hosts []*Engine) {
	t := c.t
	t.Helper()
	leaseOf := func(key string) int64 {
		t.Helper()
		got, err := store.Keys()
		if err != nil || got[key].Lease == 0 {
			t.Fatalf("%s is under no lease: %v", key, err)
		}
		return got[key].Lease
	}
	changed := "ringlet/state/ip/v1/ringlet/" + hosts[2].Address("web-2-1", "lan").String()
	for _, harm := range []struct {
		what string
		do   func()
	}{
		{"all keys were deleted", func() { store.Ctl("del", "--prefix", "ringlet/") }},
		{"a value was changed", func() { store.Ctl("put", changed, `{"node":"mallory"}`) }},
		{"an agreed value was changed", func() { store.Ctl("put", "ringlet/state/pools/v1/ringlet/"+lanSubnet, "{}") }},
		{"the lease of the first voter was revoked", func() { store.Revoke(leaseOf("ringlet/.cluster/ringlet")) }},
		{"the lease of another host was revoked", func() { store.Revoke(leaseOf(changed)) }},
		{"etcd was restarted", func() { store.Down(); store.Up() }},
		{"etcd lost its data", func() { store.Down(); store.Wipe(); store.Up() }},
	} {
		harm.do()
		store.Mirrors(putBack, harm.what, hosts...)
	}
}

// dead has the first voter lose its power. Its keys stay until its lease ends; what is agreed goes to the next voter.
func (c *Cluster) dead(store *ETCD, hosts []*Engine) {
	t := c.t
	t.Helper()
	a, others := hosts[0], hosts[1:]
	before, err := store.Keys()
	if err != nil {
		t.Fatal(err)
	}
	lease := before["ringlet/state/nodes/v1/ringlet/"+a.Name].Lease
	own := map[string]bool{} // its own keys, but for what is agreed
	for key, kv := range before {
		if kv.Lease == lease && !strings.HasPrefix(key, "ringlet/.") && !strings.HasPrefix(key, "ringlet/state/pools/") && !strings.Contains(key, "/id/") {
			own[key] = true
		}
	}
	if len(own) < 5 || before["ringlet/.cluster/ringlet"].Lease != lease {
		t.Fatalf("under the lease of the first voter are %v", own)
	}
	a.PowerOff()
	lost := time.Now()
	for still := "all"; still != ""; time.Sleep(50 * time.Millisecond) {
		got, err := store.Keys()
		if err != nil {
			t.Fatal(err)
		}
		still = ""
		for key, kv := range got {
			if kv.Lease == lease && !own[key] {
				still = key
			}
		}
		if time.Since(lost) > nextVoter {
			t.Fatalf("not within %v: the next voter has %s", nextVoter, still)
		}
	}
	fmt.Fprintf(t.Output(), "the next voter had what is agreed %v after the first one's end\n", time.Since(lost).Round(time.Millisecond))
	kept := func() {
		t.Helper()
		got, err := store.Keys()
		if err != nil {
			t.Fatal(err)
		}
		for key := range own {
			if got[key] != before[key] {
				t.Errorf("%v after the host's end %s is %+v, it was %+v", time.Since(lost).Round(time.Second), key, got[key], before[key])
			}
		}
	}
	left, keys := store.Remaining(lease)
	if left > etcdLease || left < etcdLease*2/3-time.Minute || len(keys) != len(own) {
		t.Errorf("the lease lasts %v, with the keys %v, want %v", left, keys, own)
	}
	if *wholeLease {
		for left > 3*time.Second {
			kept()
			time.Sleep(min(left-2*time.Second, 20*time.Second))
			left, _ = store.Remaining(lease)
		}
		kept()
		fmt.Fprintf(t.Output(), "the keys were there %v after the host's end, when the lease lasted %v still\n", time.Since(lost).Round(time.Second), left)
	} else {
		time.Sleep(time.Until(lost.Add(15 * time.Second))) // longer than a living host needs to put a key back
		kept()
		store.Revoke(lease)
	}
	gone := func() bool {
		got, err := store.Keys()
		return err == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(key string) bool { return own[key] })
	}
	Eventually(t, 10*time.Second, "the keys go with the lease", gone)
	fmt.Fprintf(t.Output(), "the keys were gone %v after the host's end\n", time.Since(lost).Round(time.Millisecond))
	time.Sleep(putBack)
	if !gone() {
		t.Error("others have put back the keys of a host that is dead")
	}
	if got, err := store.Keys(); err != nil || got["ringlet/.cluster/ringlet"].Value == "" || got["ringlet/state/nodes/v1/ringlet/host-b"].Value == "" {
		t.Errorf("the keys of others and what is agreed went, too: %v", err)
	}
	a.Up()
	c.AwaitReady(hosts...)
	store.Mirrors(putBack, "the host is back", append(others, a)...)
	var node struct{ Name string }
	got, err := store.Keys()
	if err != nil || json.Unmarshal([]byte(got["ringlet/state/nodes/v1/ringlet/"+a.Name].Value), &node) != nil || node.Name != a.Name {
		t.Errorf("the host that is back has the key %+v, %v", got["ringlet/state/nodes/v1/ringlet/"+a.Name], err)
	}
}
