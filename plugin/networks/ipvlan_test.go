package networks

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

// No container starts on a network of driver ipvlan as long as the engine gives each a MAC, which the status
// says, with what to do. With RINGLET_MAC=false, and on other networks, all is well.
func TestNetworksThatTakeNoMAC(t *testing.T) {
	lan, dmz := dockerd.Network{Name: "lan", Driver: "ipvlan"}, dockerd.Network{Name: "dmz", Driver: "ipvlan"}
	for _, c := range []struct {
		mac, inPlugin bool
		networks      []dockerd.Network
		text, next    string
	}{
		{true, true, []dockerd.Network{{Name: "web", Driver: "bridge"}, lan}, "network lan is of driver ipvlan", "docker plugin set acme/ringlet:1 RINGLET_MAC=false"},
		{true, false, []dockerd.Network{lan, dmz}, "networks dmz and lan are of driver ipvlan", "restart ringlet serve with RINGLET_MAC=false"},
		{true, true, []dockerd.Network{lan, dmz, {Name: "a", Driver: "ipvlan"}}, "network a and 2 others are of driver ipvlan", ""},
		{true, true, []dockerd.Network{{Name: "web", Driver: "macvlan"}}, "", ""},
		{true, true, nil, "", ""},
		{false, true, []dockerd.Network{lan}, "", ""},
	} {
		l := &NoMAC{MAC: c.mac, InPlugin: c.inPlugin}
		if p, wrong := l.Problem(nil); wrong {
			t.Errorf("before anything is known: %+v", p)
		}
		l.See(c.networks)
		p, wrong := l.Problem([]string{"acme/ringlet:1"})
		if wrong != (c.text != "") || !strings.HasPrefix(p.Text, c.text) || !strings.Contains(p.Next, c.next) {
			t.Errorf("%+v: %v, %+v", c, wrong, p)
		}
		l.See(nil)
		if p, wrong := l.Problem(nil); wrong {
			t.Errorf("the networks are gone: %+v", p)
		}
	}
}
