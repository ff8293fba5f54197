package e2e

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// A Switch is an Ethernet switch: a bridge on a host of its own, to which other hosts are plugged with their eth0. Use
// [NewSwitch].
type Switch struct {
	*Host

	mu    sync.Mutex
	ports map[*Host]port
}

// cards counts the network cards of all hosts: switches may be joined.
var cards atomic.Uint32

// A port is where a host is plugged in.
type port struct {
	name string
	mac  string // of eth0; a host keeps its network card when the power goes
	pid  int    // of the host when the cable was made: the cable ends with the host's first process
}

// NewSwitch makes a switch without hosts. It ends with the test.
func NewSwitch(t testing.TB) *Switch {
	t.Helper()
	s := &Switch{Host: NewHost(t, "switch"), ports: make(map[*Host]port)}
	// No forwarding delay, no snooping: what is plugged in is connected at once.
	s.Run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
	s.Run("ip", "link", "set", "br0", "up")
	return s
}

// Plug connects a host: the first time (and after a power cut) with a new interface eth0, up, that has the address (none
// when it is the zero Prefix); after [Switch.Unplug] as it was. eth0 serves as parent of macvlan networks too.
func (s *Switch) Plug(h *Host, address netip.Prefix) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.ports[h]
	if !ok || p.pid != h.PID() {
		if !ok {
			n := cards.Add(1)
			p.mac = fmt.Sprintf("02:00:00:00:%02x:%02x", byte(n>>8), byte(n))
		}
		p.name, p.pid = "port"+strconv.Itoa(h.PID()), h.PID()
		s.ports[h] = p
		s.cable(p.name, h, "eth0", "address", p.mac)
		if address.IsValid() {
			h.Run("ip", "address", "add", address.String(), "dev", "eth0", "nodad")
		}
		h.Run("ip", "link", "set", "eth0", "up")
		s.Run("ip", "link", "set", p.name, "up")
	}
	s.Run("ip", "link", "set", p.name, "master", "br0")
}

// cable joins an interface of the switch to one of a host, which has more settings.
func (s *Switch) cable(port string, h *Host, name string, more ...string) {
	s.t.Helper()
	// From outside, because only there both ends have a process id; no end is ever in the machine's own network.
	args := append([]string{"link", "add", port, "netns", strconv.Itoa(s.PID()), "type", "veth", "peer", "name", name}, more...)
	cable := exec.CommandContext(s.t.Context(), "ip", append(args, "netns", strconv.Itoa(h.PID()))...)
	if out, err := cable.CombinedOutput(); err != nil {
		s.t.Fatalf("plug %s: %v\n%s", h.Name, err, out)
	}
}

// Join connects another switch, by a port of that name: an interface that is a port of this one once it is in br0.
func (s *Switch) Join(other *Switch, port string) {
	s.t.Helper()
	s.cable(port, other.Host, "uplink")
	other.Run("ip", "link", "set", "uplink", "master", "br0", "up")
	s.Run("ip", "link", "set", port, "up")
}

// Unplug takes the host off the switch: frames are lost both ways, at once, while the host still sees its link up.
func (s *Switch) Unplug(h *Host) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Run("ip", "link", "set", s.ports[h].name, "nomaster")
}
