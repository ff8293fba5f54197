package ipam_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

func restore(d ipamtest.Disk) (*ipam.Machine, error) {
	return ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, d.Load)
}

// aDisk is the disk of a peer that has lived a little.
func aDisk(t testing.TB) ipamtest.Disk {
	t.Helper()
	h := ipamtest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	a := run(t, h, n, "web")
	run(t, h, n, "db")
	release(h, n, a)
	h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "vm-1"})
	h.Call(&ipam.PoolCreation{CIDR: prefix("fd00::/64"), Name: "six"})
	return h.Disk
}

// Any one record missing: either all that matters is still there, or the
// database is refused. Never a panic.
func TestRestoreWithoutOneRecord(t *testing.T) {
	disk := aDisk(t)
	for missing := range disk {
		less := ipamtest.Disk{}
		for k, v := range disk {
			if k != missing {
				less[k] = v
			}
		}
		m, err := restore(less)
		if err == nil && m.Check(ipamtest.Start) != nil && !strings.HasPrefix(missing, "holding") && !strings.HasPrefix(missing, "network") {
			t.Errorf("without %q: restored and contradicts itself", missing)
		}
	}
}

func TestRestoreRefusesForeign(t *testing.T) {
	for name, d := range map[string]ipamtest.Disk{
		"unknown bucket": {"tables\x00\x00x": []byte("y")},
		"networks, no cluster": func() ipamtest.Disk {
			d := aDisk(t)
			maps.DeleteFunc(d, func(k string, _ []byte) bool {
				return !strings.HasPrefix(k, "identity") && !strings.HasPrefix(k, "network")
			})
			return d
		}(),
		"a cluster, no peer":   func() ipamtest.Disk { d := aDisk(t); delete(d, "identity\x00\x00self"); return d }(),
		"a network, no format": {"network\x00\x00ringlet1/local/10.0.0.0/8": nil},
	} {
		if _, err := restore(d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := restore(ipamtest.Disk{"tables\x00\x00x": []byte("y")}); !errors.Is(err, ipam.ErrForeign) {
		t.Errorf("got %v", err)
	}
}

// FuzzRestore gives every decoder of the disk bytes of any kind.
func FuzzRestore(f *testing.F) {
	for k, v := range aDisk(f) {
		bucket, key, _ := strings.Cut(k, "\x00\x00")
		f.Add(bucket, []byte(key), v)
	}
	disk := aDisk(f)
	f.Fuzz(func(t *testing.T, bucket string, key, value []byte) {
		d := maps.Clone(disk)
		d[bucket+"\x00\x00"+string(key)] = value
		m, err := restore(d)
		if err != nil {
			return
		}
		m.Step(ipamtest.Start, ipam.Tick{})
		errs := m.Check(ipamtest.Start)
		if known := m.Status(ipamtest.Start).Verdict == ipam.Failed; len(errs) > 0 && !known {
			t.Errorf("restored from %s %x = %x, and nobody is told: %v", bucket, key, value, errs)
		}
	})
}
