package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// machine is ringlet's core, driven as the node drives it, with one network.
type machine struct {
	core    *ipam.Machine
	now     time.Time
	names   []string // those of first and after are nobody's that stays
	first   int
	next    int
	call    ipam.Call
	request ipam.AddressRequest
	release ipam.AddressRelease
	saved   int // bytes that were to be saved; so that nobody optimizes them away
}

// containers are more names than a pool remembers freed addresses, and than any row holds, so that none finds its former
// address, or has one. Nobody changes them.
var containers = sync.OnceValue(func() []string {
	names := make([]string, 1_500_000)
	for i := range names {
		names[i] = "container-" + strconv.Itoa(i)
	}
	return names
})

// remembered is more than a pool remembers freed addresses.
const remembered = 150_000

func newMachine(pool string) (*machine, error) {
	core, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), Deal: chronicle.DealAll})
	if err != nil {
		return nil, err
	}
	cidr := netip.MustParsePrefix(pool)
	m := drive(core)
	net := ipam.Network{Space: ipam.Local, Pool: cidr, Range: cidr}
	m.request = ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0x42, 10, 1, 2, 3}}
	m.release = ipam.AddressRelease{Network: net}
	if _, err = m.step(&ipam.PoolRequest{Space: ipam.Local, Pool: cidr}); err != nil {
		return nil, err
	}
	return m, m.list(cidr)
}

// drive returns a core with what drives it. No call has to wait, so all have one deadline.
func drive(core *ipam.Machine) *machine {
	now := time.Unix(1_700_000_000, 0)
	return &machine{core: core, now: now, names: containers(), call: ipam.Call{Deadline: now.Add(24 * time.Hour)}}
}

// list has the engine list its networks, which have no containers, as it does soon after a start.
func (m *machine) list(subnets ...netip.Prefix) error {
	inv := &ipam.Inventory{After: m.core.Mark(m.now)}
	for _, cidr := range subnets {
		inv.Networks = append(inv.Networks, ipam.InventoryNetwork{Subnets: []netip.Prefix{cidr}})
	}
	_, err := m.step(inv)
	return err
}

func (m *machine) step(r ipam.Request) (*ipam.Reply, error) {
	m.now = m.now.Add(time.Millisecond)
	m.call.Request = r
	fx := m.core.Step(m.now, &m.call)
	for _, r := range fx.Save {
		m.saved += len(r.Key) + len(r.Value)
	}
	if len(fx.Reply) != 1 {
		return nil, fmt.Errorf("%d answers", len(fx.Reply))
	}
	return &fx.Reply[0], fx.Reply[0].Err
}

// allocate takes any address, or a certain one, for a container of a new name.
func (m *machine) allocate(want netip.Addr) (netip.Addr, error) {
	if m.next++; m.next >= len(m.names) {
		m.next = m.first
	}
	m.request.Name, m.request.Address = m.names[m.next], want
	r, err := m.step(&m.request)
	if err != nil {
		return netip.Addr{}, err
	}
	return r.Address.Address.Addr(), nil
}

// stay has those who hold an address now keep their names to themselves: more than are remembered are left.
func (m *machine) stay() { m.first = m.next + 1 }

func (m *machine) free(a netip.Addr) error {
	m.release.Address = a
	_, err := m.step(&m.release)
	return err
}

// pairs allocates and frees n times.
func (m *machine) pairs(n int) error {
	for range n {
		a, err := m.allocate(netip.Addr{})
		if err != nil {
			return err
		}
		if err := m.free(a); err != nil {
			return err
		}
	}
	return nil
}
