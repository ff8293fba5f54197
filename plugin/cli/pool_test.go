package cli

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// Pools that networks have left behind are out of the way, and go with one command; what an operator typed stays.
func TestPoolsLeftBehind(t *testing.T) {
	peer := func() *fixture {
		f := alone()
		f.st.Pools = append(f.st.Pools, []ipam.PoolStatus{
			{Pool: prefix("10.53.0.0/24"), Origin: "network", Size: 256, Reserved: 2, Ready: 254},
			{Pool: prefix("10.54.0.0/24"), Origin: "network", Size: 256, Reserved: 2, Ready: 254},
			{Pool: prefix("10.55.0.0/24"), Origin: "network", Size: 256, Reserved: 3, Ready: 253},
			{Pool: prefix("10.56.0.0/24"), Origin: "network", Size: 256, Reserved: 2, Ready: 253, Held: 1},
			{Pool: prefix("10.57.0.0/31"), Origin: "network", Size: 2, Reserved: 1, Holders: []ipam.RangeStatus{{Start: ip("10.57.0.0"), End: ip("10.57.0.0"), Owner: "reserved", Kind: "excluded"}}},
		}...)
		return f
	}
	run := func(f *fixture, args ...string) result {
		t.Helper()
		return ringlet(t, Config{}, append(append([]string{"pool"}, args...), "--socket", serve(t, f))...)
	}
	got := run(peer(), "ls")
	if strings.Contains(got.out, "10.53.0.0") || !strings.Contains(got.out, "10.55.0.0") || !strings.Contains(got.out, "10.56.0.0") ||
		!strings.Contains(got.out, "pools that nothing uses: see --all, and ringlet pool rm --unused") {
		t.Errorf("pool ls:\n%s", got.out)
	}
	if got := run(peer(), "ls", "--all"); !strings.Contains(got.out, "10.53.0.0") || strings.Contains(got.out, "nothing uses") {
		t.Errorf("pool ls --all:\n%s", got.out)
	}
	if got := run(peer(), "rm", "--unused"); got.code != 0 || got.out != "removed pool 10.53.0.0/24\nremoved pool 10.54.0.0/24\n" {
		t.Errorf("pool rm --unused: %+v", got)
	}
	f := peer()
	f.err = &ipam.Error{Kind: ipam.ErrPoolInUse, Text: "it is in use on another host"}
	if got := run(f, "rm", "10.53.0.0/24"); got.code != 1 {
		t.Errorf("one pool in use: %+v", got)
	}
	if got := run(alone(), "rm", "--unused"); got.code != 0 || got.out != "there is no unused pool\n" {
		t.Errorf("none: %+v", got)
	}
	for _, args := range [][]string{{"rm"}, {"rm", "lab", "--unused"}, {"rm", "a", "b"}} {
		if got := ringlet(t, Config{}, append([]string{"pool"}, args...)...); got.code != 2 {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
