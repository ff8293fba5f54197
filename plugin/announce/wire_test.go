package announce

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/namespace"
)

const (
	bridgeName = "br-0123456789ab"
	oldMAC     = "02:42:00:00:00:99"
	newMAC     = "02:42:00:00:00:77"
)

// A box is a network namespace: that of this test, a container's, another host's.
type box struct {
	t   *testing.T
	pid string // of a process in it; empty: the test's own
}

// ip runs the command there, and returns what it prints.
func (b box) ip(args ...string) string {
	b.t.Helper()
	command := append([]string{"ip"}, args...)
	if b.pid != "" {
		command = append([]string{"nsenter", "--target", b.pid, "--net", "--"}, command...)
	}
	out, err := exec.CommandContext(b.t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// hostBox takes the test to a network of its own. The test is skipped where that cannot be made.
func hostBox(t *testing.T) box {
	t.Helper()
	namespace.Enter(t)
	return box{t: t}
}

// box returns another network.
func (b box) box() box {
	b.t.Helper()
	return box{t: b.t, pid: namespace.Other(b.t)}
}

// cable returns another network that has an eth0 with the addresses, whose other end is here under that name.
func (b box) cable(end, mac string, addresses ...string) box {
	b.t.Helper()
	other := b.box()
	b.ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", other.pid)
	b.ip("link", "set", end, "up")
	other.up(addresses...)
	return other
}

// up gives eth0 its addresses.
func (b box) up(addresses ...string) {
	b.t.Helper()
	for _, a := range addresses {
		b.ip("address", "add", a, "dev", "eth0", "nodad")
	}
	b.ip("link", "set", "eth0", "up")
}

// knows has the kernel there know a MAC of an address.
func (b box) knows(dev, mac string, addresses ...netip.Addr) {
	b.t.Helper()
	for _, a := range addresses {
		b.ip("neighbour", "replace", a.String(), "lladdr", mac, "dev", dev, "nud", "reachable")
	}
}

// eventually waits until the kernel there knows a MAC.
func (b box) eventually(who, dev string, a netip.Addr, mac string) {
	b.t.Helper()
	var out string
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); runtime.Gosched() {
		if out = b.ip("neighbour", "show", a.String(), "dev", dev); strings.Contains(out, mac) {
			return
		}
	}
	b.t.Errorf("%s knows %q of %v, want %s", who, out, a, mac)
}

func parseTestMAC(t *testing.T, s string) MAC {
	t.Helper()
	hw, err := net.ParseMAC(s)
	if err != nil {
		t.Fatal(err)
	}
	return MAC(hw)
}

// send sends what is due, and checks what comes of it.
func send(t *testing.T, w *Wire, p Packet, packets int, stale bool) {
	t.Helper()
	n, old, err := w.Send(p)
	if err != nil || n != packets || old != stale {
		t.Errorf("turn %d of %v: %d packets, stale %v, %v; want %d, %v", p.Turn, p.Address, n, old, err, packets, stale)
	}
}

// mended looks after the host until its kernel knows the new MAC: an entry that is made now keeps its MAC for a second.
func (b box) mended(w *Wire, p Packet) {
	b.t.Helper()
	p.Announce = false
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); b.ip("link", "show", "lo") {
		if _, stale, err := w.Send(p); err != nil || !stale {
			if err != nil {
				b.t.Error(err)
			}
			return
		}
	}
	b.t.Errorf("the host goes on with the old MAC of %v", p.Address)
}

// On a bridge neighbours and the host itself know the new MAC soon.
func TestWireOnBridge(t *testing.T) {
	host := hostBox(t)
	host.ip("link", "add", bridgeName, "type", "bridge", "forward_delay", "0")
	host.ip("address", "add", "10.9.0.1/24", "dev", bridgeName)
	host.ip("address", "add", "fd00:9::1/64", "dev", bridgeName, "nodad")
	host.ip("link", "set", bridgeName, "up")
	neighbour := host.cable("port1", "02:42:00:00:00:02", "10.9.0.2/24", "fd00:9::2/64")
	host.cable("port2", newMAC, "10.9.0.77/24", "fd00:9::77/64")
	for _, port := range []string{"port1", "port2"} {
		host.ip("link", "set", port, "master", bridgeName)
	}
	four, six := netip.MustParseAddr("10.9.0.77"), netip.MustParseAddr("fd00:9::77")
	old := func() {
		host.knows(bridgeName, oldMAC, four, six)
		neighbour.knows("eth0", oldMAC, four, six)
	}
	w := &Wire{}
	defer w.Close()
	p := Packet{Address: four, MAC: parseTestMAC(t, newMAC), Link: Link{Bridge, bridgeName}, Announce: true}

	old()
	send(t, w, p, 2, true)
	neighbour.eventually("the neighbour", "eth0", four, newMAC)
	host.mended(w, p)
	host.eventually("the host", bridgeName, four, newMAC)
	p.Turn = 1
	send(t, w, p, 1, false)
	p.Turn, p.Announce = 3, false
	send(t, w, p, 0, false)
	host.ip("neighbour", "replace", four.String(), "lladdr", oldMAC, "dev", bridgeName, "nud", "permanent")
	send(t, w, p, 0, false) // an operator wants it so

	// The advertisement is for the neighbour, and what the container answers later for all.
	p.Address, p.Turn, p.Announce = six, 0, true
	send(t, w, p, 1, true)
	neighbour.eventually("the neighbour", "eth0", six, newMAC)
	old()
	p.Turn = 1
	send(t, w, p, 1, true)
	neighbour.eventually("the neighbour", "eth0", six, newMAC)
	host.mended(w, p)
	host.eventually("the host", bridgeName, six, newMAC)
	p.Turn = 2
	send(t, w, p, 1, false)
}

// From the parent of a macvlan network the LAN is reached, and not the containers of this host: these are, too, where the host
// has an interface beside theirs.
func TestWireOnParent(t *testing.T) {
	host := hostBox(t)
	lan := host.cable("eth9", "02:42:00:00:00:03", "192.168.7.3/24")
	sibling, container := host.box(), host.box()
	at := netip.MustParseAddr("192.168.7.77")
	for of, name := range map[box]string{sibling: "mv1", container: "mv2"} {
		host.ip("link", "add", name, "link", "eth9", "type", "macvlan", "mode", "bridge")
		host.ip("link", "set", name, "netns", of.pid, "name", "eth0")
	}
	container.ip("link", "set", "eth0", "address", newMAC)
	container.up(at.String() + "/24")
	sibling.up("192.168.7.4/24")
	w := &Wire{}
	defer w.Close()
	p := Packet{Address: at, MAC: parseTestMAC(t, newMAC), Link: Link{Parent, "eth9"}, Announce: true}

	lan.knows("eth0", oldMAC, at)
	sibling.knows("eth0", oldMAC, at)
	send(t, w, p, 1, false)
	lan.eventually("the LAN", "eth0", at, newMAC)
	if out := sibling.ip("neighbour", "show", at.String(), "dev", "eth0"); !strings.Contains(out, oldMAC) {
		t.Errorf("the sibling knows %q: is docs/networks.md still true?", out)
	}

	host.ip("link", "add", "shim", "link", "eth9", "type", "macvlan", "mode", "bridge")
	host.ip("address", "add", "192.168.7.9/32", "dev", "shim")
	lan.knows("eth0", oldMAC, at)
	send(t, w, p, 1, false) // it is not up
	lan.eventually("the LAN", "eth0", at, newMAC)
	host.ip("link", "set", "shim", "up")
	lan.knows("eth0", oldMAC, at)
	send(t, w, p, 1, false)
	lan.eventually("the LAN", "eth0", at, newMAC)
	sibling.eventually("the sibling", "eth0", at, newMAC)
	host.knows("shim", oldMAC, at)
	send(t, w, p, 2, true)
}

// What is not the link of a network is left alone, and says so.
func TestWireRefuses(t *testing.T) {
	host := hostBox(t)
	host.cable("eth9", "02:42:00:00:00:03")
	w := &Wire{}
	defer w.Close()
	for link, want := range map[Link]string{
		{Bridge, "none"}: "look for the interface none",
		{Bridge, "eth9"}: "eth9 is not a bridge but of type veth",
		{Parent, "lo"}:   "the interface lo is not Ethernet",
	} {
		_, _, err := w.Send(Packet{Address: netip.MustParseAddr("10.9.0.77"), MAC: MAC{2}, Link: link, Announce: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", link, err, want)
		}
	}
	host.ip("link", "set", "eth9", "down")
	if _, _, err := w.Send(Packet{Address: netip.MustParseAddr("10.9.0.77"), MAC: MAC{2}, Link: Link{Parent, "eth9"}, Announce: true}); !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("with the interface down: %v", err)
	}
}
