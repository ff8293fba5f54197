package ipam_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

func restore(d machinetest.Disk) (*ipam.Machine, error) {
	return ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, d.Load)
}

// aDisk is the disk of a peer that has lived a little.
func aDisk(t testing.TB) machinetest.Disk {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	a := run(t, h, n, "web")
	run(t, h, n, "db")
	h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "app", ID: strings.Repeat("0123456789abcdef", 4)})
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
		less := machinetest.Disk{}
		for k, v := range disk {
			if k != missing {
				less[k] = v
			}
		}
		m, err := restore(less)
		if err == nil && m.Check(machinetest.Start) != nil && !strings.HasPrefix(missing, "holding") && !strings.HasPrefix(missing, "network") {
			t.Errorf("without %q: restored and contradicts itself", missing)
		}
	}
}

func TestRestoreRefusesForeign(t *testing.T) {
	for name, d := range map[string]machinetest.Disk{
		"unknown bucket": {"tables\x00\x00x": []byte("y")},
		"networks, no cluster": func() machinetest.Disk {
			d := aDisk(t)
			maps.DeleteFunc(d, func(k string, _ []byte) bool {
				return !strings.HasPrefix(k, "identity") && !strings.HasPrefix(k, "network")
			})
			return d
		}(),
		"a cluster, no peer": func() machinetest.Disk { d := aDisk(t); delete(d, "identity\x00\x00self"); return d }(),
		"a network, and more": func() machinetest.Disk {
			d := aDisk(t)
			for k, v := range d {
				if strings.HasPrefix(k, "network") {
					d[k] = append(slices.Clone(v), 7)
				}
			}
			return d
		}(),
		"a network, no format": {"network\x00\x00ringlet1/local/10.0.0.0/8": nil},
	} {
		if _, err := restore(d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := restore(machinetest.Disk{"tables\x00\x00x": []byte("y")}); !errors.Is(err, ipam.ErrForeign) {
		t.Errorf("got %v", err)
	}
}

// What a holder is called comes back from the disk as it was; a container's ID
// takes half of its length there. Earlier versions wrote it as it is.
func TestRestoreOfIDs(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	packed, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{id, strings.ToUpper(id), id[1:], id + "0", "vm-1", string(packed), ""} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.50.0.0/24")
		r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 0x42, 10}, ID: ref})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		want, err := h.Machine().Who(machinetest.Start, r.Address.Address.Addr())
		if err != nil || want.Container != ref {
			t.Fatalf("%q: held by %+v, %v", ref, want, err)
		}
		comesBack := func(d machinetest.Disk) {
			t.Helper()
			m, err := restore(d)
			if err != nil {
				t.Fatalf("%q: %v", ref, err)
			}
			if got, err := m.Who(machinetest.Start, want.Address); err != nil || got != want {
				t.Errorf("came back as %+v, %v, want %+v", got, err, want)
			}
		}
		comesBack(h.Disk)
		if ref != id {
			continue
		}
		for k, v := range h.Disk {
			if !strings.HasPrefix(k, "holding") {
				continue
			}
			if !bytes.HasSuffix(v, packed) || bytes.Contains(v, []byte(id)) || v[3] != 1 {
				t.Fatalf("the record is %x, want the ID packed at its end", v)
			}
			for _, packs := range []bool{true, false} {
				h.Disk[k] = holding1(v, packs)
				comesBack(h.Disk)
			}
			h.Disk[k] = v[:len(v)-1]
			if _, err := restore(h.Disk); err == nil {
				t.Error("a record with half an ID was accepted")
			}
		}
	}
}

// holding1 returns the record of an address that a container's ID is known of as it was
// written before it had places of fixed lengths, at last with the ID packed, at first not.
func holding1(v []byte, packs bool) []byte {
	const key, mac, network, isPacked = 1, 2, 4, 8
	out := append([]byte{1, v[1], v[2], 0}, v[4:12]...)
	out = binary.AppendUvarint(out, binary.BigEndian.Uint64(v[12:]))
	for _, part := range []struct {
		flag byte
		b    []byte
	}{{key, v[20:28]}, {mac, v[32:38]}, {network, v[28:32]}} {
		if !bytes.Equal(part.b, make([]byte, len(part.b))) {
			out[3] |= part.flag
			out = append(out, part.b...)
		}
	}
	name := 40 + int(binary.BigEndian.Uint16(v[38:]))
	out = append(append(out, byte(name-40)), v[40:name]...)
	if packs {
		out[3] |= isPacked
		return append(out, v[name:]...)
	}
	text := hex.EncodeToString(v[name:])
	return append(append(out, byte(len(text))), text...)
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
		m.Step(machinetest.Start, ipam.Tick{})
		errs := m.Check(machinetest.Start)
		if known := m.Status(machinetest.Start).Verdict == ipam.Failed; len(errs) > 0 && !known {
			t.Errorf("restored from %s %x = %x, and nobody is told: %v", bucket, key, value, errs)
		}
	})
}
