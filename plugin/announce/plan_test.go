package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// A bench is a plan at a time, and what came of it.
type bench struct {
	t      *testing.T
	plan   *plan
	now    time.Time
	begun  time.Time
	counts map[string]int
	stale  bool // the host goes by another MAC
}

var bridged = Network{ID: "net", Link: Link{Bridge, "br-net"}, Subnets: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}}

func newBench(t *testing.T, kept ...Network) *bench {
	t.Helper()
	b := &bench{t: t, now: time.Unix(1_000_000, 0), counts: map[string]int{}}
	b.begun = b.now
	b.plan = newPlan(kept, func(result string) { b.counts[result]++ })
	return b
}

func address(last int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 9, byte(last >> 8), byte(last)})
}

func mac(last int) MAC { return MAC{2, 0x42, 0, 0, byte(last >> 8), byte(last)} }

// granted is a request, some time after what was before.
func (b *bench) granted(after time.Duration, last, hw int) {
	b.now = b.now.Add(after)
	m := mac(hw)
	if hw == 0 {
		m = MAC{}
	}
	b.plan.granted(b.now, address(last), m)
}

// list has the engine list networks, with endpoints of the form address:MAC on the first.
func (b *bench) list(networks []Network, endpoints ...[2]int) {
	b.now = b.now.Add(time.Millisecond)
	b.listBegun(b.now, networks, endpoints...)
}

func (b *bench) listBegun(at time.Time, networks []Network, endpoints ...[2]int) {
	networks = slices.Clone(networks)
	for _, e := range endpoints {
		networks[0].Endpoints = append(networks[0].Endpoints, Endpoint{address(e[0]), mac(e[1])})
	}
	b.now = b.now.Add(time.Millisecond)
	b.plan.listed(b.now, List{Begun: at, Complete: true, Networks: networks})
}

// sends returns what is sent from now on until nothing is planned any more, or for that long, and goes on in time.
func (b *bench) sends(long time.Duration) []string {
	b.t.Helper()
	var out []string
	for end := b.now.Add(long); ; {
		what, ok := b.plan.next(b.now)
		if !ok {
			at, planned := b.plan.wait()
			if !planned || at.After(end) {
				b.now = end
				return out
			}
			if !at.After(b.now) {
				b.t.Fatalf("at %v something is planned for %v, and nothing is to be sent", b.now, at)
			}
			b.now = at
			continue
		}
		word := "announce"
		packets := 1
		if !what.Announce {
			word = "look"
			if !b.stale {
				packets = 0
			}
		}
		out = append(out, fmt.Sprintf("%v %s %v %x on %s", b.now.Sub(b.begun).Round(time.Millisecond), word, what.Address, what.MAC[4:], what.Link.Name))
		b.plan.sent(b.now, what, packets, b.stale)
		b.now = b.now.Add(time.Microsecond)
	}
}

func (b *bench) want(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// A container that starts is announced three times, at the times that the package says.
func TestStart(t *testing.T) {
	b := newBench(t, bridged)
	b.granted(time.Second, 7, 1)
	b.want(b.sends(time.Minute),
		"1s announce 10.9.0.7 0001 on br-net",
		"1.5s announce 10.9.0.7 0001 on br-net",
		"2.5s announce 10.9.0.7 0001 on br-net")

	// Again with that MAC, a fixed one, and then with another.
	b.granted(time.Second, 7, 1)
	b.want(b.sends(time.Minute))
	b.granted(time.Second, 7, 2)
	if got := b.sends(time.Minute); len(got) != turns {
		t.Errorf("with another MAC: %q", got)
	}
	// With the same, after somebody else had the address: another host, or something on the LAN.
	b.granted(time.Second, 7, 2)
	b.want(b.sends(time.Minute))
	b.plan.forget(address(0), address(8))
	b.granted(time.Second, 7, 2)
	if got := b.sends(time.Minute); len(got) != turns {
		t.Errorf("after another host: %q", got)
	}
	b.plan.forget(address(8), address(9))
	b.granted(time.Second, 7, 2)
	b.want(b.sends(time.Minute))
}

// The engine repeats a request that was not answered: that changes nothing.
func TestStartRequestedTwice(t *testing.T) {
	b := newBench(t, bridged)
	b.granted(0, 7, 1)
	first := b.sends(100 * time.Millisecond)
	b.granted(0, 7, 1)
	b.want(append(first, b.sends(time.Minute)...),
		"0s announce 10.9.0.7 0001 on br-net",
		"500ms announce 10.9.0.7 0001 on br-net",
		"1.5s announce 10.9.0.7 0001 on br-net")
}

// The address moves to another container: from then on that one is announced, and nothing of the first.
func TestStartMoved(t *testing.T) {
	b := newBench(t, bridged)
	b.granted(0, 7, 1)
	first := b.sends(100 * time.Millisecond)
	b.granted(0, 7, 2)
	b.want(append(first, b.sends(time.Minute)...),
		"0s announce 10.9.0.7 0001 on br-net",
		"100ms announce 10.9.0.7 0002 on br-net",
		"600ms announce 10.9.0.7 0002 on br-net",
		"1.6s announce 10.9.0.7 0002 on br-net")

	// What was to be sent for the first when the second started changes nothing of the second.
	b.granted(time.Second, 7, 3)
	old, _ := b.plan.next(b.now)
	b.granted(0, 7, 4)
	b.plan.sent(b.now, old, 1, false)
	b.plan.drop(old)
	if got := b.sends(time.Minute); len(got) != turns || !strings.Contains(got[0], "0004") {
		t.Errorf("the second container is announced as %q", got)
	}
}

// The container is gone before its announcement: nothing more is sent.
func TestStartGone(t *testing.T) {
	b := newBench(t, bridged)
	b.granted(0, 7, 1)
	what, ok := b.plan.next(b.now)
	if !ok || what.Turn != 0 {
		t.Fatalf("nothing is to be sent: %+v", what)
	}
	b.plan.drop(what)
	b.want(b.sends(time.Minute))
}

// While the kernel of this host goes by another MAC it is looked after: often, then each second, for a minute.
func TestHostIsLookedAfter(t *testing.T) {
	b := newBench(t, bridged)
	b.stale = true
	b.granted(0, 7, 1)
	got := b.sends(700 * time.Millisecond)
	b.want(got,
		"0s announce 10.9.0.7 0001 on br-net",
		"200ms look 10.9.0.7 0001 on br-net",
		"400ms look 10.9.0.7 0001 on br-net",
		"500ms announce 10.9.0.7 0001 on br-net",
		"700ms look 10.9.0.7 0001 on br-net")
	b.stale = false
	b.want(b.sends(time.Minute),
		"900ms look 10.9.0.7 0001 on br-net",
		"1.5s announce 10.9.0.7 0001 on br-net")

	b.stale = true
	b.granted(time.Second, 8, 1)
	began := b.now
	looks := b.sends(time.Hour)
	if n := len(looks); n < 60 || n > 90 {
		t.Errorf("a host that never learns is asked for %d times", n)
	}
	last, err := time.ParseDuration(strings.Fields(looks[len(looks)-1])[0])
	if took := b.begun.Add(last).Sub(began); err != nil || took < settled-again || took > settled+again {
		t.Errorf("the last time is after %v, %v", took, err)
	}
}

// What a host has in its first list runs already. Later lists show starts of which no request has told the MAC.
func TestStartsInLists(t *testing.T) {
	b := newBench(t)
	all := []Network{bridged}
	b.list(all, [2]int{7, 1}, [2]int{8, 2})
	b.want(b.sends(time.Second))
	b.list(all, [2]int{7, 1}, [2]int{8, 3}, [2]int{9, 4})
	b.want(b.sends(time.Millisecond),
		"1.004s announce 10.9.0.8 0003 on br-net",
		"1.004s announce 10.9.0.9 0004 on br-net")
	b.sends(time.Minute)
	b.list(all, [2]int{7, 1}, [2]int{8, 3}, [2]int{9, 4})
	b.want(b.sends(time.Minute))

	// A network that is new, and the container with it, of which the request has told.
	another := Network{ID: "new", Link: Link{Parent, "eth0"}, Subnets: []netip.Prefix{netip.MustParsePrefix("10.9.1.0/24")}}
	b.granted(0, 256+7, 5)
	b.want(b.sends(time.Second))
	b.list([]Network{another, bridged}, [2]int{256 + 7, 5}, [2]int{256 + 8, 6})
	if got := b.sends(time.Minute); len(got) != turns || !strings.HasSuffix(got[0], "announce 10.9.1.7 0005 on eth0") {
		t.Errorf("on a new network: %q", got)
	}
	// A request without a MAC: the list tells it.
	b.granted(0, 256+9, 0)
	b.want(b.sends(time.Second))
	b.list([]Network{another, bridged}, [2]int{256 + 7, 5}, [2]int{256 + 8, 6}, [2]int{256 + 9, 7})
	if got := b.sends(time.Minute); len(got) != turns || !strings.HasSuffix(got[0], "announce 10.9.1.9 0007 on eth0") {
		t.Errorf("without a MAC: %q", got)
	}
}

// A list that began before a request says nothing about it.
func TestListIsOlder(t *testing.T) {
	b := newBench(t)
	all := []Network{bridged}
	b.list(all, [2]int{7, 1}, [2]int{8, 2})
	begun := b.now
	b.granted(time.Millisecond, 7, 3) // whose network is known
	b.granted(0, 8, 0)                // of which the MAC is not known yet
	b.listBegun(begun, all, [2]int{7, 1}, [2]int{8, 2})
	if got := b.sends(time.Minute); len(got) != turns || !strings.Contains(got[0], "10.9.0.7 0003") {
		t.Errorf("got %q", got)
	}
	b.list(all, [2]int{7, 3}, [2]int{8, 4})
	if got := b.sends(time.Minute); len(got) != turns || !strings.Contains(got[0], "10.9.0.8 0004") {
		t.Errorf("got %q", got)
	}
}

// Where networks on several links have one subnet, or one is being made there, a list says which it is.
func TestLinkIsCertain(t *testing.T) {
	other := bridged
	other.ID, other.Link = "other", Link{Parent, "eth1"}
	b := newBench(t, bridged, other)
	b.granted(0, 7, 1)
	b.want(b.sends(time.Second))
	b.list([]Network{other, bridged}, [2]int{7, 1})
	if got := b.sends(time.Minute); len(got) != turns || !strings.HasSuffix(got[0], "on eth1") {
		t.Errorf("one of two: %q", got)
	}

	b = newBench(t, bridged)
	b.plan.made(b.now, bridged.Subnets[0])
	b.listBegun(b.now.Add(-time.Second), []Network{bridged}) // older
	b.granted(time.Second, 7, 1)
	b.want(b.sends(time.Second))
	b.list([]Network{other, bridged}, [2]int{7, 1})
	if got := b.sends(time.Minute); len(got) != turns || !strings.HasSuffix(got[0], "on eth1") {
		t.Errorf("the one that was made: %q", got)
	}
	b.list([]Network{bridged})
	b.granted(time.Second, 8, 1)
	if got := b.sends(time.Minute); len(got) != turns {
		t.Errorf("once a list has come: %q", got)
	}
}

// A network whose neighbours are not on a link of this host.
func TestUnreachable(t *testing.T) {
	n := bridged
	n.Link = LinkOf("ipvlan", strings.Repeat("ab", 32), false, map[string]string{"parent": "eth0"})
	b := newBench(t, n)
	b.granted(0, 7, 1)
	b.want(b.sends(time.Minute))
	if b.counts[Unreachable] != 1 {
		t.Errorf("counted %v", b.counts)
	}
}

// Many that start at once: all are announced within a second after the first of them, and the rate holds.
func TestRate(t *testing.T) {
	for _, many := range []int{200, 1000} {
		b := newBench(t, Network{ID: "net", Link: Link{Bridge, "br-net"}, Subnets: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
		for i := range many {
			b.granted(0, i+1, i+1)
		}
		sent := b.sends(time.Hour)
		var at []time.Duration
		each := map[string]int{}
		for i, line := range sent {
			f := strings.Fields(line)
			d, err := time.ParseDuration(f[0])
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, d)
			if each[f[2]]++; each[f[2]] > 1 && i < many && many > 2*Rate {
				t.Errorf("%s comes before the first of others", line)
			}
		}
		if len(sent) != turns*many || len(each) != many {
			t.Errorf("%d packets about %d addresses, want %d about %d", len(sent), len(each), turns*many, many)
		}
		if many == 200 {
			first := map[string]bool{}
			for i, line := range sent {
				if a := strings.Fields(line)[2]; !first[a] && at[i] > 1500*time.Millisecond {
					t.Errorf("first announced at %v", at[i])
				} else {
					first[a] = true
				}
			}
		}
		for i := range at {
			if j := i + 2*Rate; j < len(at) && at[j]-at[i] < 990*time.Millisecond {
				t.Fatalf("%d packets in %v", 2*Rate+1, at[j]-at[i])
			}
		}
		if long := at[len(at)-1]; many == 1000 && long < time.Duration(turns*many/Rate-1)*time.Second-time.Second {
			t.Errorf("%d packets in %v", len(at), long)
		}
	}
}

// What is remembered does not grow for ever.
func TestMemory(t *testing.T) {
	n := Network{ID: "net", Subnets: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}
	b := newBench(t, n)
	for i := range 3 * spare {
		b.granted(0, i+1, 1)
	}
	if len(b.plan.known) != 3*spare {
		t.Errorf("%d are known", len(b.plan.known))
	}
	b.list([]Network{n}, [2]int{1, 1})
	b.granted(0, 2, 0) // never seen in any list
	b.now = b.now.Add(time.Hour)
	b.list([]Network{n}, [2]int{1, 1})
	if p := b.plan; len(p.known) > spare || len(p.waiting) > 0 || len(p.tasks) > 0 {
		t.Errorf("%d known, %d waiting, %d planned", len(p.known), len(p.waiting), len(p.tasks))
	}
	if _, ok := b.plan.known[address(1)]; !ok {
		t.Error("what the engine lists is forgotten")
	}
}

func TestLinkOf(t *testing.T) {
	id := strings.Repeat("0123456789ab", 5) + "cdef"
	for _, c := range []struct {
		driver   string
		id       string
		internal bool
		options  map[string]string
		want     Link
	}{
		{"bridge", id, false, nil, Link{Bridge, "br-0123456789ab"}},
		{"bridge", id, true, nil, Link{Bridge, "br-0123456789ab"}},
		{"bridge", id, false, map[string]string{"com.docker.network.bridge.name": "lan0"}, Link{Bridge, "lan0"}},
		{"bridge", "short", false, nil, Link{}},
		{"macvlan", id, false, map[string]string{"parent": "eth0.10"}, Link{Parent, "eth0.10"}},
		{"macvlan", id, true, map[string]string{"parent": "eth0"}, Link{}},
		{"macvlan", id, false, nil, Link{}},
		{"ipvlan", id, false, map[string]string{"parent": "eth0"}, Link{}},
		{"weave", id, false, nil, Link{}},
	} {
		if got := LinkOf(c.driver, c.id, c.internal, c.options); got != c.want {
			t.Errorf("%s %v: got %+v, want %+v", c.driver, c.options, got, c.want)
		}
	}
}
