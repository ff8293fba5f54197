package former_test

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/former"
)

var clients = []former.Client{
	{Pool: "10.50.0.0/24", Address: netip.MustParseAddr("10.50.0.9"), ID: "door"},
	{Pool: "10.50.0.0/24", Address: netip.MustParseAddr("10.50.0.7"), ID: "printer"},
	{Pool: "10.60.0.0/24", Address: netip.MustParseAddr("10.60.0.7"), ID: "door"},
}

// What is written down is what comes back, whatever was claimed.
func TestRestored(t *testing.T) {
	for name, claim := range map[string]func(p *former.Peer){
		"nothing":              func(*former.Peer) {},
		"one address":          func(p *former.Peer) { p.Claimed("door", netip.MustParsePrefix("10.50.0.9/32")) },
		"all of a client":      func(p *former.Peer) { p.Claimed("door", netip.Prefix{}) },
		"in a pool":            func(p *former.Peer) { p.Claimed("door", netip.MustParsePrefix("10.60.0.0/24")) },
		"by somebody else":     func(p *former.Peer) { p.Claimed("cook", netip.Prefix{}) },
		"of somebody else":     func(p *former.Peer) { p.Claimed("door", netip.MustParsePrefix("10.50.0.7/32")) },
		"everything":           func(p *former.Peer) { p.Claimed("door", netip.Prefix{}); p.Claimed("printer", netip.Prefix{}) },
		"twice the same thing": func(p *former.Peer) { p.Claimed("door", netip.Prefix{}); p.Claimed("door", netip.Prefix{}) },
	} {
		var out effect.Out
		w := effect.NewWriter(&out)
		p := former.New(&w)
		if p.Was() {
			t.Fatal("there was a former peer")
		}
		p.Begin([16]byte{9}, clients)
		claim(p)
		last := out.Save[len(out.Save)-1]
		again := former.New(&w)
		if err := again.Restore(last.Value); err != nil || string(last.Key) != former.Key {
			t.Fatalf("%s: %v", name, err)
		}
		if !again.Was() || len(again.Unclaimed()) != len(p.Unclaimed()) || len(p.Unclaimed()) > 0 && !reflect.DeepEqual(again.Unclaimed(), p.Unclaimed()) {
			t.Errorf("%s: restored as %v, not %v", name, again.Unclaimed(), p.Unclaimed())
		}
	}
}

func TestAwaits(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	p := former.New(&w)
	p.Begin([16]byte{9}, clients)
	if first := p.Unclaimed()[0]; first.ID != "printer" {
		t.Errorf("first in order of addresses is %v", first)
	}
	p.Claimed("door", netip.MustParsePrefix("10.50.0.9/32"))
	for _, c := range []struct {
		address, id string
		want        bool
	}{
		{"10.50.0.9", "", false}, {"10.50.0.7", "", true}, {"10.50.0.7", "printer", true}, {"10.50.0.7", "door", false}, {"10.60.0.7", "door", true},
	} {
		if got := p.Awaits(netip.MustParseAddr(c.address), c.id); got != c.want {
			t.Errorf("%s of %q: %v", c.address, c.id, got)
		}
	}
}

func TestDamaged(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	former.New(&w).Begin([16]byte{9}, clients)
	value := out.Save[0].Value
	for n := range value {
		if err := former.New(&w).Restore(value[:n]); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if err := former.New(&w).Restore(append([]byte{9}, value[1:]...)); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("another format: %v", err)
	}
}
