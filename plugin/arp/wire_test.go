package arp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/namespace"
)

// wire takes the test to a network of its own: eth0, with 192.168.1.1/24, and
// at the other end of its cable the eth0 of another host. It returns how to run
// commands here and there. The test is skipped where that cannot be made.
func wire(t *testing.T) (here, there func(args ...string)) {
	t.Helper()
	namespace.Enter(t)
	pid := namespace.Other(t)
	here = func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	there = func(args ...string) {
		t.Helper()
		here(append([]string{"nsenter", "--target", pid, "--net", "--"}, args...)...)
	}
	here("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", pid)
	here("ip", "address", "add", "192.168.1.1/24", "dev", "eth0")
	here("ip", "link", "set", "eth0", "up")
	there("ip", "link", "set", "eth0", "address", net.HardwareAddr(theirs[:]).String())
	there("ip", "link", "set", "eth0", "up")
	for _, at := range [][]string{{"ip"}, {"nsenter", "--target", pid, "--net", "--", "ip"}} {
		awaitUp(t, "eth0", at...)
	}
	return here, there
}

// awaitUp returns when an interface carries frames, which is a moment after it
// was told to: until then they are dropped. The command is ip, where that is.
func awaitUp(t *testing.T, name string, command ...string) {
	t.Helper()
	args := append(command[1:], "-oneline", "link", "show", name)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		out, err := exec.Command(command[0], args...).CombinedOutput()
		if err == nil && strings.Contains(string(out), "state UP") {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s does not come up: %v\n%s", name, err, out)
		}
	}
}

func probeIs(t *testing.T, a string, want MAC) {
	t.Helper()
	if got, err := Probe(t.Context(), netip.MustParseAddr(a)); err != nil || got != want {
		t.Errorf("%s: %s answers, %v; want %s", a, net.HardwareAddr(got[:]), err, net.HardwareAddr(want[:]))
	}
}

// The kernel of the other host answers for what it has, and for nothing else.
func TestProbe(t *testing.T) {
	here, there := wire(t)
	there("ip", "address", "add", "192.168.1.50/24", "dev", "eth0")
	there("ip", "address", "add", "10.9.0.7/32", "dev", "eth0")
	probeIs(t, "192.168.1.50", theirs)
	probeIs(t, "192.168.1.51", MAC{})
	probeIs(t, "192.168.1.1", MAC{}) // our own

	// In no subnet of the host: there is nobody to ask, until there is a route.
	if got, err := Probe(t.Context(), netip.MustParseAddr("10.9.0.7")); !errors.Is(err, ErrNoInterface) {
		t.Errorf("without a route: %v answers, %v", got, err)
	}
	here("ip", "route", "add", "default", "via", "192.168.1.50")
	probeIs(t, "10.9.0.7", theirs)

	there("ip", "address", "del", "192.168.1.50/24", "dev", "eth0")
	probeIs(t, "192.168.1.50", MAC{})
	here("ip", "link", "set", "eth0", "down")
	if got, err := Probe(t.Context(), netip.MustParseAddr("192.168.1.50")); !errors.Is(err, ErrNoInterface) {
		t.Errorf("with the interface down: %v answers, %v", got, err)
	}
}

// What another interface of this host sends is passed over, and so is a packet
// that does not say who sent it.
func TestProbeHearsItself(t *testing.T) {
	here, _ := wire(t)
	here("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "port1")
	here("ip", "link", "set", "eth1", "up")
	card, err := net.InterfaceByName("eth1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(card.Index)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	peer, err := net.InterfaceByName("port1")
	if err != nil {
		t.Fatal(err)
	}
	here("ip", "link", "set", "port1", "up")
	awaitUp(t, "eth1", "ip")
	ear, err := open(peer.Index)
	if err != nil {
		t.Fatal(err)
	}
	defer ear.close()
	own := map[MAC]bool{MAC(card.HardwareAddr): true}
	for _, from := range []MAC{MAC(card.HardwareAddr), {}, theirs} {
		if err := s.send(packet{op: reply, senderMAC: from, sender: wanted, target: nobody}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ear.listen(wanted, own, time.Now().Add(time.Minute)); err != nil || got != theirs {
		t.Errorf("%v answers, %v; want the third alone", got, err)
	}
}

// Probes run beside one another, and each hears what is meant for it.
func TestProbesAtATime(t *testing.T) {
	_, there := wire(t)
	for _, last := range []string{"50", "52", "54", "56"} {
		there("ip", "address", "add", "192.168.1."+last+"/24", "dev", "eth0")
	}
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			runtime.LockOSThread() // and ends with the goroutine
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				t.Error(err)
				return
			}
			a := netip.AddrFrom4([4]byte{192, 168, 1, byte(50 + i)})
			got, err := Probe(t.Context(), a)
			if answers := got == theirs; err != nil || answers != (i%2 == 0) {
				t.Errorf("%v: %v answers, %v", a, got, err)
			}
		})
	}
	wg.Wait()
}

// A probe ends with its context, and knows what it cannot do.
func TestProbeRefuses(t *testing.T) {
	if _, err := Probe(t.Context(), netip.MustParseAddr("fd00::1")); err == nil || !strings.Contains(err.Error(), "fd00::1 is no IPv4 address") {
		t.Errorf("IPv6: %v", err)
	}
	wire(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Probe(ctx, wanted); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}
