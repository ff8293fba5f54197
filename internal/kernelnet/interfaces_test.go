package kernelnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ringlet/ringlet/internal/namespace"
)

// A host has as many interfaces and addresses as containers make: the kernel is to list each kind once.
func TestManyInterfaces(t *testing.T) {
	namespace.Enter(t)
	for i := range 20 {
		name := fmt.Sprintf("veth%d", i)
		namespace.IP(t, "link", "add", name, "type", "veth", "peer", "name", "peer"+name)
		namespace.IP(t, "link", "set", name, "up")
		for j := range 10 {
			namespace.IP(t, "address", "add", fmt.Sprintf("10.60.%d.%d/24", i, j+1), "dev", name)
		}
	}
	allocated := func(read func() error) uint64 { // in bytes
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	got := allocated(func() error { _, err := Interfaces(); return err })
	once := allocated(func() error {
		_, err := net.Interfaces()
		_, err2 := net.InterfaceAddrs()
		return errors.Join(err, err2)
	})
	if got > 5*once { // with a question for each interface it is 20 times as much
		t.Errorf("to read the addresses takes %d bytes, and each list once %d", got, once)
	}

	namespace.IP(t, "link", "set", "veth0", "down")
	namespace.IP(t, "address", "add", "10.61.0.9", "peer", "169.254.1.1/32", "dev", "veth1") // a line with two ends
	namespace.IP(t, "address", "add", "fd00:61::9/64", "dev", "veth1")
	have, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	where := map[netip.Prefix]string{}
	for _, i := range have {
		if i.IsUp() != (i.Flags&net.FlagUp != 0) || i.Name == "veth0" && i.IsUp() {
			t.Errorf("%s: flags %v", i.Name, i.Flags)
		}
		for _, a := range i.Addresses {
			where[a] = i.Name
		}
	}
	for a, link := range map[string]string{
		"10.60.0.1/24": "veth0", "10.60.1.1/24": "veth1", "10.61.0.9/32": "veth1", "169.254.1.1/32": "", "fd00:61::9/64": "veth1", "10.60.19.10/24": "veth19",
	} {
		if got := where[netip.MustParsePrefix(a)]; got != link {
			t.Errorf("%s is on %q, want %q", a, got, link)
		}
	}
	if !slices.IsSortedFunc(have, func(a, b Interface) int { return a.Index - b.Index }) {
		t.Error("the interfaces are not in the order of their indexes")
	}
	all, err := Addresses()
	if err != nil || len(all) != len(where) {
		t.Errorf("%d addresses, %v; the interfaces have %d", len(all), err, len(where))
	}
}

// A list that changes while it is read is read again, and not for ever.
func TestListThatChanges(t *testing.T) {
	for _, changes := range []int{0, 1, tries - 1, 100} {
		reads := 0
		got, err := list(func() ([]int, error) {
			reads++
			if reads <= changes {
				return []int{reads}, netlink.ErrDumpInterrupted
			}
			return []int{reads}, nil
		})
		if want := min(changes+1, tries); err != nil || reads != want || !slices.Equal(got, []int{want}) {
			t.Errorf("a list that changes %d times was read %d times: %v, %v", changes, reads, got, err)
		}
	}
	gone := errors.New("gone")
	if _, err := list(func() ([]int, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestIsVirtual(t *testing.T) {
	for name, want := range map[string]bool{
		"eth0": false, "enp3s0": false, "wlan0": false, "br0": false, "lo": false,
		"docker0": true, "br-4f3a2b1c4f3a": true, "veth1234567": true, "cali0123456789a": true, "flannel.1": true, "lxdbr0": true, "podman0": true,
	} {
		if got := IsVirtual(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
