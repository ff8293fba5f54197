package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// identityOf returns the identity that the plugin on the engine shows for an address: its number, and its labels.
func (e *Engine) identityOf(a netip.Addr) (number uint64, labels map[string]string) {
	var who struct {
		Identity struct {
			Number uint64
			Labels map[string]string
		}
	}
	if e.askPlugin("/v1/addresses/"+a.String(), &who) != nil {
		return 0, nil
	}
	return who.Identity.Number, who.Identity.Labels
}

// K1: containers of three hosts with one label set have one number on all, those with another set have another. Both keys
// show it, and who does on each host. K3: a start with labels that no host has had takes no longer than one without any.
func TestClusterIdentities(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3, "RINGLET_IDENTITY_LABELS=com.docker.compose.project,com.docker.compose.service,team*")
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", lanSubnet, "--gateway", lanGateway)
	}
	sets := []map[string]string{
		{"com.docker.compose.project": "shop", "com.docker.compose.service": "web"},
		{"com.docker.compose.project": "shop", "com.docker.compose.service": "db", "team.lead": "a/b"},
		{},
	}
	held := map[netip.Addr]int{} // by address: the set of its container
	for i, e := range c.Engines {
		for j := range 6 {
			args := []string{"run", "--detach", "--name", fmt.Sprintf("c-%d-%d", i, j), "--network", "lan", "--label", "com.docker.compose.container-number=" + fmt.Sprint(j)}
			for name, value := range sets[j%3] {
				args = append(args, "--label", name+"="+value)
			}
			e.Docker(append(args, Demo)...)
			held[e.Address(fmt.Sprintf("c-%d-%d", i, j), "lan")] = j % 3
		}
	}
	numbers := make([]uint64, len(sets))
	Eventually(t, directoryLimit, "each set has one number on all hosts", func() bool {
		clear(numbers)
		for _, e := range c.Engines {
			for a, set := range held {
				number, labels := e.identityOf(a)
				if set == 2 && number != 0 || set != 2 && (number == 0 || fmt.Sprint(labels) != fmt.Sprint(sets[set])) {
					return false
				}
				if numbers[set] == 0 {
					numbers[set] = number
				}
				if numbers[set] != number {
					t.Fatalf("%v has %d on %s, and another address of the set %d", a, number, e.Name, numbers[set])
				}
			}
		}
		return numbers[0] != numbers[1]
	})
	a := c.Engines[0]
	var want []string
	for set, text := range []string{"com.docker.compose.project=shop;com.docker.compose.service=web", "com.docker.compose.project=shop;com.docker.compose.service=db;team.lead=a%2Fb"} {
		want = append(want, fmt.Sprintf("ringlet/state/identities/v1/ringlet/id/%d", numbers[set]))
		for _, e := range c.Engines {
			want = append(want, "ringlet/state/identities/v1/ringlet/value/"+text+"/"+e.Name)
		}
	}
	for _, e := range c.Engines {
		out := e.Ringlet("kv", "get", "--recursive", "ringlet/state/identities/")
		for _, key := range want {
			if !strings.Contains(out, key) {
				t.Errorf("%s lacks %s:\n%s", e.Name, key, out)
			}
		}
		if e == a {
			fmt.Fprintln(t.Output(), out)
		}
	}
	if out := a.Ringlet("kv", "get", want[len(want)-1]); !strings.Contains(out, fmt.Sprint(numbers[1])) {
		t.Errorf("the key of a label set alone: %s", out)
	}
	for address, set := range held {
		if set == 1 {
			out := c.Engines[2].Ringlet("who", address.String())
			if !strings.Contains(out, fmt.Sprintf("%d (com.docker.compose.project=shop, com.docker.compose.service=db, team.lead=a/b)", numbers[1])) {
				t.Errorf("who %v: %s", address, out)
			}
			fmt.Fprintln(t.Output(), out)
			break
		}
	}

	// A host that restarts its plugin, and one that is cut off, agree with the others afterwards.
	last := c.Engines[2]
	c.Cut(last)
	last.Docker("run", "--detach", "--name", "apart", "--network", "lan", "--label", "team=new", Demo)
	apart := last.Address("apart", "lan")
	a.Docker("run", "--detach", "--name", "here", "--network", "lan", "--label", "team=new", Demo)
	here := a.Address("here", "lan")
	Eventually(t, directoryLimit, "the majority has a number", func() bool { n, _ := a.identityOf(here); return n != 0 })
	if n, _ := last.identityOf(apart); n != 0 {
		t.Errorf("the host that is cut off gave the number %d", n)
	}
	c.Heal(last)
	c.AwaitReady(c.Engines...)
	Eventually(t, 2*time.Minute, "the host that was cut off has the same number", func() bool {
		n, _ := last.identityOf(apart)
		m, _ := last.identityOf(here)
		return n != 0 && n == m
	})

	// In turns: a start without labels that count, and one with a set that no host has had.
	times := make([][]time.Duration, 2)
	for i := range 24 {
		kind := i % 2
		args := []string{"run", "--detach", "--name", fmt.Sprint("turn-", i), "--network", "lan", "--label", fmt.Sprint("other=", i)}
		if kind == 1 {
			args = append(args, "--label", fmt.Sprint("team=turn-", i))
		}
		begun := time.Now()
		a.Docker(append(args, Demo)...)
		times[kind] = append(times[kind], time.Since(begun))
		a.Docker("rm", "--force", fmt.Sprint("turn-", i))
	}
	for kind := range times {
		slices.Sort(times[kind])
	}
	without, with := times[0][len(times[0])/2], times[1][len(times[1])/2]
	fmt.Fprintf(t.Output(), "a start takes %v without an identity, and %v with one (medians of %d, in turns)\n", without.Round(time.Millisecond), with.Round(time.Millisecond), len(times[0]))
	if with > without+without/2 {
		t.Errorf("a start takes %v without an identity, and %v with one", without, with)
	}
}
