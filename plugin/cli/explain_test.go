package cli

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// stories are explanations with all that one can have.
func stories(lab netip.Prefix, web string) []ipam.Explanation {
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	held := ipam.Explanation{
		AddressStatus: ipam.AddressStatus{
			Address: ip("10.50.0.2"), Pool: lab, Peer: "host-a", State: "held", Kind: "container", Container: web, Name: "web",
			MAC: "02:42:0a:32:00:02", Since: now.Add(-2 * time.Minute),
		},
		Verdict:  "is held by container web (0123456789ab) on host-a since 2026-11-21 11:58 UTC",
		Conflict: "10.50.0.2 in 10.50.0.0/24 (lab) is used by container evil\x1b[2J on host-a since 2026-11-21 11:59 UTC, but is held by container web",
		Next:     "stop that container, or remove the other holder", PoolName: "lab", Origin: "operator",
		Networks: []ipam.PoolID{"ringlet1/local/10.50.0.0/24;pool=lab"}, NetworksHere: 1, NetworkNames: []string{"lab"}, First: ip("10.50.0.1"), Last: ip("10.50.0.128"), Owner: "host-a",
		OwnerID: "3f2a9c0d11e4", OwnedHow: "self", Version: 3, Reserved: &ipam.ReservedFor{Kind: "kept for a name", Note: "web"},
		Engine: &ipam.EngineSight{Listed: true, Container: web, Looked: at(-20 * time.Second)},
		Refusals: []ipam.Refusal{
			{
				Address: ip("10.50.0.2"), To: "container web2", Code: "address-in-use", First: now.Add(-time.Hour), Last: now.Add(-time.Minute), Times: 3,
				Why: "address 10.50.0.2 in 10.50.0.0/24 (lab) is held by container web (0123456789ab) on host-a since 2026-11-21 11:58 UTC: stop that container first, or choose another address",
			},
			{Address: ip("10.50.0.2"), To: "\"tv\"", Code: "address-reserved", First: now, Last: now, Times: 1, Why: "address 10.50.0.2 in 10.50.0.0/24 is kept for web: choose another address"},
		},
	}
	resting := ipam.Explanation{
		AddressStatus: ipam.AddressStatus{Address: ip("10.50.0.5"), Pool: prefix("10.50.0.0/24"), State: "resting", Kind: "container", MAC: "02:42:0a:32:00:05"},
		Verdict:       "rests until 2026-11-21 12:04 UTC; it was last held by container batch, until 2026-11-21 11:59 UTC",
		Origin:        "network", First: ip("10.50.0.1"), Last: ip("10.50.0.128"), Owner: "host-a", OwnedHow: "self", Version: 3, Rests: at(4 * time.Minute),
	}
	stranger := ipam.Explanation{
		AddressStatus: ipam.AddressStatus{Address: ip("10.50.0.7"), Pool: prefix("10.50.0.0/24"), State: "stranger", Kind: "stranger", MAC: "0a:00:00:00:00:50"},
		Verdict:       "is held by another device on the network, with MAC 0a:00:00:00:00:50, which answered host-a at 2026-11-21 11:59 UTC",
		Next:          "ringlet exclude add 10.50.0.7, if the device stays; ringlet release 10.50.0.7, once it no longer has the address",
		Origin:        "choice", First: ip("10.50.0.1"), Last: ip("10.50.0.128"), Owner: "host-a", OwnedHow: "self", Version: 3, Retry: at(59 * time.Minute),
	}
	lost := ipam.Explanation{
		AddressStatus: ipam.AddressStatus{Address: ip("10.50.0.200"), Pool: prefix("10.50.0.0/24"), State: "quarantined", Peer: "host-c"},
		Verdict:       "may be in use on host-c, which was lost and evicted",
		Next:          "bring that host back, or release its addresses with ringlet forget host-c if it is gone for good",
		Origin:        "network", First: ip("10.50.0.192"), Last: ip("10.50.0.254"), Owner: "host-c", OwnerID: "99ff", OwnedHow: "evicted", Version: 9,
	}
	return []ipam.Explanation{held, resting, stranger, lost}
}

// What the engine said of a holder is told in each case.
func TestEngineStory(t *testing.T) {
	v := view{now: now}
	for want, s := range map[string]ipam.EngineSight{
		"its list was not read yet since the plugin started":                             {},
		"missing from its lists since 2026-11-21 11:59:00 UTC":                           {Looked: new(now), Missing: new(now.Add(-time.Minute))},
		"in its last list, 5m ago":                                                       {Looked: new(now.Add(-5 * time.Minute)), Listed: true},
		"in its last list, 5m ago, for container abc":                                    {Looked: new(now.Add(-5 * time.Minute)), Listed: true, Container: "abc"},
		"its list was not read since then; the last one is from 2026-11-21 11:55:00 UTC": {Looked: new(now.Add(-5 * time.Minute))},
	} {
		if got := v.engineStory(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The identity of a holder is told with its labels, in order, if they are known.
func TestIdentityStory(t *testing.T) {
	for want, id := range map[string]*admin.Identity{
		"": nil, "300": {Number: 300}, "256 (a=b, team=x y)": {Number: 256, Labels: map[string]string{"team": "x y", "a": "b"}},
	} {
		if got := identityText(id); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		var out strings.Builder
		v := view{out: &out, now: now}
		v.explanation(stories(prefix("10.50.0.0/24"), "web")[0], id)
		if got := out.String(); strings.Contains(got, "identity") != (id != nil) || !strings.Contains(got, want) {
			t.Errorf("%q is explained as\n%s", want, got)
		}
	}
}

func TestOwnerStory(t *testing.T) {
	for want, e := range map[string]ipam.Explanation{
		"reserved":                          {Owner: "reserved"},
		"free since slot 3":                 {Owner: "free", Version: 3},
		"this host's (host-a) since slot 3": {Owner: "host-a", OwnedHow: "self", Version: 3},
		"host-c's (reachable) since slot 9, in zone east": {Owner: "host-c", OwnedHow: "reachable", Version: 9, Zone: "east"},
		"host-c's (evicted) since slot 9":                 {Owner: "host-c", OwnedHow: "evicted", Version: 9},
	} {
		if got := ownerStory(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestExplainRefused(t *testing.T) {
	cfg := Config{Getenv: env("RINGLET_SOCKET", serve(t, alone()))}
	if got := ringlet(t, cfg, "explain", "10.99.0.1"); got.code != exitFailed || !strings.Contains(got.err, "lies in no pool") {
		t.Errorf("%+v", got)
	}
	if got := ringlet(t, cfg, "explain", "10.50.0.777"); got.code != exitUsage || got.out != "" {
		t.Errorf("%+v", got)
	}
}
