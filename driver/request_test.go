package driver

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	remote "github.com/docker/go-plugins-helpers/ipam"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/poolid"
)

var compareAddrs = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestParseOptions(t *testing.T) {
	tests := []struct {
		name  string
		pairs map[string]string
		v6    bool
		want  options
	}{
		{name: "none"},
		{name: "defaults, named", pairs: map[string]string{"gateway": "host", "sticky": "name"}},
		{name: "engine's own", pairs: map[string]string{"com.docker.network.ipam.serial": "true", optionType: typeGateway}},
		{
			name: "all", pairs: map[string]string{"pool": "lab", "gateway": "10.1.0.1", "size": "26", "sticky": "none"},
			want: options{pool: "lab", gateway: ipam.GatewayAddr, gatewayAddr: netip.MustParseAddr("10.1.0.1"), sticky: ipam.StickyNone, bits: 26},
		},
		{
			name: "the half that nothing speaks of", v6: true,
			pairs: map[string]string{"pool": "lab", "gateway": "10.1.0.1", "size": "26", "sticky": "none"},
			want:  options{pool: "lab", sticky: ipam.StickyNone, other: true},
		},
		{name: "size of IPv6", v6: true, pairs: map[string]string{"size": "80"}, want: options{bits: 80}},
		{name: "size of IPv6 in the IPv4 half", pairs: map[string]string{"size": "80"}, want: options{other: true}},
		{name: "sizes of both, the IPv4 half", pairs: map[string]string{"size": "26,80"}, want: options{bits: 26}},
		{name: "sizes of both, the IPv6 half", v6: true, pairs: map[string]string{"size": "80,26"}, want: options{bits: 80}},
		{
			name: "mapped gateway", pairs: map[string]string{"gateway": "::ffff:10.1.0.1"},
			want: options{gateway: ipam.GatewayAddr, gatewayAddr: netip.MustParseAddr("10.1.0.1")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := parseOptions(tt.pairs, tt.v6)
			if len(problems) > 0 {
				t.Fatalf("refused: %q", problems)
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{}), compareAddrs); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestHolderName(t *testing.T) {
	const task = "j5z8y2d1q0r7m4k6x9w3v1u0t"
	tests := []struct{ name, want string }{
		{"", ""},
		{"web-1", "web-1"},
		{"web.3." + task, "web.3"},
		{"my.web.12." + task, "my.web.12"},
		{"web.x." + task, "web.x." + task},             // no slot
		{"web.3." + task[1:], "web.3." + task[1:]},     // too short for a task
		{"web.3." + task + "0", "web.3." + task + "0"}, // too long
		{"web.3.J" + task[1:], "web.3.J" + task[1:]},   // no task's letters
		{".3." + task, ".3." + task},                   // no service
		{"web.." + task, "web.." + task},
		{"3." + task, "3." + task},
		{strings.Repeat("n", ipam.MaxHolder), strings.Repeat("n", ipam.MaxHolder)},
		{strings.Repeat("n", ipam.MaxHolder+1), ""},
	}
	for _, tt := range tests {
		if got := holderName(tt.name); got != tt.want {
			t.Errorf("holderName(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestReplayIsAccepted holds the promise of poolRequest: what was accepted
// when a network was made is accepted when the engine replays it, with the
// pool that it was granted, and is the same network.
func TestReplayIsAccepted(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		acceptsReplays(t, keeps)
	}
}

func acceptsReplays(t *testing.T, keeps bool) {
	t.Helper()
	accepted := 0
	replayed := func(t *rapid.T) {
		q := drawPoolRequest(t)
		r, err := poolRequest(&q, keeps)
		if err != nil {
			return
		}
		pool := r.Pool
		if !pool.IsValid() {
			pool = netip.MustParsePrefix(rapid.SampledFrom([]string{"10.1.0.0/16", "10.32.5.0/24", "10.32.6.64/26", "fd00::/64", "fd00:0:0:1::/80"}).Draw(t, "chosen"))
		}
		n := networkOf(r, pool)
		if _, err := poolid.Parse(n.ID()); err != nil {
			return // the backend refuses it
		}
		if checkPool(&r, &ipam.PoolGrant{Network: n}) != nil {
			return
		}
		accepted++
		replay := remote.RequestPoolRequest{
			AddressSpace: q.AddressSpace, Pool: pool.String(), SubPool: q.SubPool, Options: maps.Clone(q.Options), V6: pool.Addr().Is6(),
		}
		again, err := poolRequest(&replay, keeps)
		if err != nil {
			t.Fatalf("%+v was granted %v, its replay is refused: %v", q, pool, err)
		}
		if got := networkOf(again, again.Pool).ID(); got != n.ID() {
			t.Fatalf("%+v is network %s, its replay is %s", q, n.ID(), got)
		}
	}
	for range 20 { // with -short there are so few requests that all may be refused
		if rapid.Check(t, replayed); accepted > 0 {
			break
		}
	}
	if accepted == 0 {
		t.Error("no request was accepted: nothing was tested")
	}
}

func drawPoolRequest(t *rapid.T) remote.RequestPoolRequest {
	maybe := func(name string, values ...string) string {
		return rapid.SampledFrom(append(values, "", "", "")).Draw(t, name)
	}
	q := remote.RequestPoolRequest{
		AddressSpace: rapid.SampledFrom([]string{"local", "local", "global"}).Draw(t, "space"),
		Pool:         maybe("pool", "10.1.0.0/16", "10.1.5.7/16", "10.32.5.0/24", "fd00::/64", "::ffff:10.1.0.0/112", "0.0.0.0/24", "0.0.0.0/26", "::/80"),
		SubPool:      maybe("range", "10.1.2.0/24", "10.1.2.3/24", "10.32.5.0/24", "fd00::/80", "10.9.0.0/24"),
		Options:      map[string]string{},
		V6:           rapid.Bool().Draw(t, "v6"),
	}
	for key, values := range map[string][]string{
		"pool": {"lab"}, "size": {"16", "24", "26", "64", "80", "26,80"}, "sticky": {"name", "mac"},
		"gateway":  {"host", "first", "10.1.0.1", "10.32.5.254", "fd00::1"},
		optionType: {typeGateway}, "com.docker.network.ipam.serial": {"true"},
	} {
		if v := maybe(key, values...); v != "" {
			q.Options[key] = v
		}
	}
	return q
}

// An engine from 29 on names the subnet that it got for 0.0.0.0/26, so one of that size is chosen. Older ones would ask for
// another one at each start.
func TestAnySubnetOfASize(t *testing.T) {
	for _, tt := range []struct {
		pool, gateway, subPool, size string
		v6                           bool
		bits                         int
		wrong                        string
	}{
		{pool: "0.0.0.0/26", bits: 26},
		{pool: "::/80", v6: true, bits: 80},
		{pool: "::/80", v6: true, size: "24,80", bits: 80},
		{pool: "0.0.0.0/26", size: "26", bits: 26},
		{pool: "0.0.0.0/26", size: "80", bits: 26}, // and IPv6 has that one
		{pool: "0.0.0.0/26", gateway: "first", bits: 26},
		{pool: "0.0.0.0/26", size: "24", wrong: "subnet 0.0.0.0/26 is not a /24"},
		{pool: "0.0.0.0/0", wrong: "from /8 to /30"},
		{pool: "0.0.0.0/31", wrong: "from /8 to /30"},
		{pool: "::/48", v6: true, wrong: "from /64 to /126"},
		{pool: "0.0.0.0/26", v6: true, wrong: "not a subnet that containers can use"},
		{pool: "0.0.0.0/26", gateway: "10.1.0.1", wrong: "needs its subnet"},
		{pool: "0.0.0.0/26", subPool: "10.1.0.0/27", wrong: "needs its subnet"},
	} {
		q := remote.RequestPoolRequest{AddressSpace: "local", Pool: tt.pool, SubPool: tt.subPool, Options: map[string]string{}, V6: tt.v6}
		for key, val := range map[string]string{"gateway": tt.gateway, "size": tt.size} {
			if val != "" {
				q.Options[key] = val
			}
		}
		r, err := poolRequest(&q, true)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%+v: %v, want %q", tt, err, tt.wrong)
			}
			continue
		}
		if err != nil || r.Pool.IsValid() || r.Bits != tt.bits || r.V6 != tt.v6 {
			t.Errorf("%+v is %+v, %v", tt, r, err)
		}
		if _, err := poolRequest(&q, false); err == nil || !strings.Contains(err.Error(), "not a subnet that containers can use") {
			t.Errorf("%+v, of an engine before 29: %v", tt, err)
		}
	}
}

// Of an IPv6 subnet wider than a /64 the range is the pool.
func TestWideSubnet(t *testing.T) {
	for _, tt := range []struct{ pool, subPool, gateway, wrong string }{
		{pool: "fd00:d0cc::/32", subPool: "fd00:d0cc:a::/64"},
		{pool: "fd00:d0cc::/32", subPool: "fd00:d0cc:a::/120"},
		{pool: "fd00:d0cc::/63", subPool: "fd00:d0cc:0:1::/64", gateway: "fd00:d0cc:0:1::9"},
		{pool: "fd00:d0cc::/32", wrong: "subnet fd00:d0cc::/32 is wider than a /64: name the part for containers with --ip-range, a /64 or smaller"},
		{pool: "fd00:d0cc::/32", subPool: "fd00:d0cc:a::/48", wrong: "range fd00:d0cc:a::/48 is wider than a /64"},
		{pool: "fd00:d0cc::/32", subPool: "fd00:d0cd:a::/64", wrong: "range fd00:d0cd:a::/64 is not in subnet fd00:d0cc::/32"},
		{pool: "fd00:d0cc::/32", subPool: "fd00:d0cc:a::/64", gateway: "fd00:d0cc::1", wrong: "gateway fd00:d0cc::1 is not in range fd00:d0cc:a::/64: name it with --gateway"},
	} {
		q := remote.RequestPoolRequest{AddressSpace: "local", Pool: tt.pool, SubPool: tt.subPool, Options: map[string]string{}, V6: true}
		if tt.gateway != "" {
			q.Options["gateway"] = tt.gateway
		}
		r, err := poolRequest(&q, false)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%+v: %v, want %q", tt, err, tt.wrong)
			}
			continue
		}
		if err != nil || r.Pool.String() != tt.subPool || r.Range.IsValid() || r.Subnet.String() != tt.pool {
			t.Errorf("%+v is %+v, %v", tt, r, err)
		}
	}
}

// What the engine is answered has the mask of the subnet, of which it knows nothing narrower. What a network has for itself outside
// the pool is granted, too.
func TestWideSubnetIsAnswered(t *testing.T) {
	_, path := start(t, Config{Backend: &fake{}})
	call := func(method, body, want string) {
		t.Helper()
		if _, got, err := post(t.Context(), client(t, path), "IpamDriver."+method, body); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s %s: %s, %v, want %s", method, body, got, err, want)
		}
	}
	const id = "ringlet1/local/fd00:0:a::/64;gateway=first;subnet=fd00::/32"
	call(callRequestPool, `{"AddressSpace":"local","Pool":"fd00::/32","SubPool":"fd00:0:a::/64","V6":true,"Options":{"gateway":"first"}}`,
		`{"PoolID":"`+id+`","Pool":"fd00::/32","Data":{"com.docker.network.gateway":"fd00:0:a::1/32"}}`)
	call(callRequestAddress, `{"PoolID":"`+id+`","Address":"fd00::1","Options":{"RequestAddressType":"com.docker.network.gateway"}}`, `{"Address":"fd00::1/32","Data":{}}`)
	call(callRequestAddress, `{"PoolID":"`+id+`","Address":"","Options":{}}`, `{"Address":"fd00:0:a::2/32","Data":{}}`)
}

// FuzzRequestPool feeds bodies, and asks that whatever reaches the backend
// makes sense: it can become a network, and its ID can be read back.
func FuzzRequestPool(f *testing.F) {
	for _, s := range []string{
		subnetBody, chosenBody, "", "null", "{}", `{"AddressSpace":"global","Pool":"fd00::/64","Options":{"size":"64"}}`,
		`{"AddressSpace":"local","Pool":"10.1.2.3/16","SubPool":"10.1.9.9/24","Options":{"pool":"lab","gateway":"first","sticky":"mac","size":"16"}}`,
		`{"AddressSpace":"local","Options":{"gateway":"10.1.0.1%x","size":"-1"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		backend := &fake{}
		backend.requestPool = func(_ context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
			g := backend.grantPool(r)
			n := g.Network
			if n.Space != ipam.Local && n.Space != ipam.Global || n.Pool.Addr().Is6() != r.V6 && r.Pool.IsValid() || n.Pool != n.Pool.Masked() {
				t.Errorf("asked for %+v", r)
			}
			if n.Gateway == ipam.GatewayAddr && r.Pool.IsValid() && !n.Pool.Contains(n.GatewayAddr) {
				t.Errorf("gateway outside: %+v", r)
			}
			return g, nil
		}
		fuzzed(t, backend, callRequestPool, body)
	})
}

// FuzzRequestAddress does the same for addresses.
func FuzzRequestAddress(f *testing.F) {
	for _, s := range []string{containerBody, claimBody, "{}", `{"PoolID":"ringlet1/local/fd00::/64","Address":"::ffff:10.1.0.9","Options":{"RequestAddressType":"com.docker.network.gateway"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		backend := &fake{}
		backend.requestAddress = func(_ context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
			if _, err := poolid.Parse(r.Network.ID()); err != nil || r.Purpose == 0 || len(r.Name) > ipam.MaxHolder {
				t.Errorf("asked for %+v: %v", r, err)
			}
			return backend.grant(r), nil
		}
		fuzzed(t, backend, callRequestAddress, body)
	})
}

// FuzzReleases feeds both kinds of releases.
func FuzzReleases(f *testing.F) {
	for _, s := range []string{stopBody, removeBody, "{}", "7", `{"PoolID":"x"}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, pool bool) {
		method := callReleaseAddress
		if pool {
			method = callReleasePool
		}
		fuzzed(t, &fake{}, method, body)
	})
}

// fuzzed asks of any body that it is answered with status 200 and a JSON
// object, without a panic.
func fuzzed(t *testing.T, backend *fake, method string, body []byte) {
	t.Helper()
	d := newDriver(t, Config{Backend: backend, Logger: slog.New(slog.DiscardHandler)})
	w := ask(t.Context(), d, method, string(body))
	var object map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &object); w.Code != http.StatusOK || err != nil {
		t.Errorf("answered %d %q: %v", w.Code, w.Body, err)
	}
	if n := d.Stats().Panics; n > 0 {
		t.Errorf("%d panics: %s", n, w.Body)
	}
	if e, failed := object["Error"]; failed && e == "" {
		t.Errorf("failed without a sentence: %s", w.Body)
	}
}
