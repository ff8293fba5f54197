package ipam_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

var seedFlag = flag.Uint64("seed", 0, "run random histories from this seed alone")

// model is what a person at the keyboard would believe: which address each
// container was given and has not given back.
type model struct {
	t    *testing.T
	h    *machinetest.Host
	rnd  *rand.Rand
	nets []ipam.Network
	held map[netip.Addr]string // container, by address
	had  map[string]bool       // network, address and name or MAC of all that were granted
	last ipam.Ticket           // of the last grant
	who  netip.Addr            // and its address
}

// TestRandomHistory lets a peer live through random requests, repetitions,
// crashes before the commit, restarts, inventories and the passing of time.
// No address is held by two containers; none is lost.
func TestRandomHistory(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = seeds[:0]
		for i := range uint64(60) {
			seeds = append(seeds, i+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			m := &model{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), held: map[netip.Addr]string{}, had: map[string]bool{}}
			m.h = machinetest.NewHost(t, ipam.Config{Rest: time.Minute, Chunk: 8})
			for _, q := range []ipam.PoolRequest{
				{Pool: prefix("10.50.0.0/27")},
				{Pool: prefix("10.50.1.0/28"), Range: prefix("10.50.1.8/29")},
				{Pool: prefix("10.50.1.0/28"), Gateway: ipam.GatewayFirst},
				{Pool: prefix("fd00::/122"), V6: true},
			} {
				q.Space = ipam.Local
				r := m.h.Call(&q)
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				m.nets = append(m.nets, r.Pool.Network)
			}
			for range 600 {
				m.act()
				m.h.Now = m.h.Now.Add(time.Duration(m.rnd.IntN(int(5 * time.Second))))
			}
			m.h.CheckDisk()
			checkTrail(t, m.h)
			m.settle()
			checkTrail(t, m.h)
		})
	}
}

func (m *model) network() ipam.Network { return m.nets[m.rnd.IntN(len(m.nets))] }

func (m *model) request(n ipam.Network) *ipam.AddressRequest {
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: fmt.Sprint("c", m.rnd.IntN(60))}
	q.MAC = ipam.MAC{2, byte(m.rnd.IntN(256)), byte(m.rnd.IntN(256)), 1}
	if m.rnd.IntN(4) == 0 {
		q.Name = "" // an engine before 29
	}
	if m.rnd.IntN(4) == 0 {
		q.Address = addrIn(m.rnd, n.Pool)
	}
	return q
}

func addrIn(rnd *rand.Rand, p netip.Prefix) netip.Addr {
	a := p.Addr()
	for range rnd.IntN(1 << (a.BitLen() - p.Bits())) {
		a = a.Next()
	}
	return a
}

func (m *model) act() {
	m.t.Helper()
	switch m.rnd.IntN(12) {
	default:
		m.ask()
	case 4, 5, 6, 7:
		for a := range m.held { // some address that is held
			m.release(a)
			break
		}
	case 8:
		m.h.CrashBeforeCommit(m.request(m.network()))
	case 9:
		m.h.Restart()
	case 10:
		if !m.last.IsZero() {
			m.h.Call(&ipam.Withdrawal{Ticket: m.last})
			if m.h.Machine().Status(m.h.Now); !m.isHeld(m.who) {
				delete(m.held, m.who)
			}
			m.last = ipam.Ticket{}
		}
	case 11:
		m.look()
	}
}

func (m *model) isHeld(a netip.Addr) bool {
	s, err := m.h.Machine().Who(m.h.Now, a)
	return err == nil && s.State == "held"
}

// ask requests an address, sometimes twice.
func (m *model) ask() {
	m.t.Helper()
	q := m.request(m.network())
	r := m.h.Call(q)
	if r.Err != nil {
		for _, kind := range []error{ipam.ErrNoAddress, ipam.ErrAddressInUse, ipam.ErrAddressReserved} {
			if errors.Is(r.Err, kind) {
				return
			}
		}
		m.t.Fatalf("%+v: %v", q, r.Err)
	}
	a := r.Address.Address.Addr()
	owner := q.Name + q.MAC.String()
	if old, taken := m.held[a]; taken {
		// Only the same container may be answered with what it has, by name.
		if q.Name == "" || len(old) < len(q.Name) || old[:len(q.Name)] != q.Name {
			m.t.Fatalf("%v is held by %s and handed out to %s", a, old, owner)
		}
	}
	if !q.Network.Pool.Contains(a) || q.Address.IsValid() && q.Address != a {
		m.t.Fatalf("%+v was answered with %v", q, a)
	}
	at := fmt.Sprint(q.Network.ID(), a)
	if !q.Address.IsValid() && !q.Network.Range.Contains(a) && !m.had[at+q.Name] && !m.had[at+q.MAC.String()] {
		m.t.Fatalf("%v lies outside of the range %v, and %s did not have it on that network", a, q.Network.Range, owner)
	}
	m.had[at+q.MAC.String()] = true
	if q.Name != "" {
		m.had[at+q.Name] = true
	}
	m.held[a] = owner
	m.last, m.who = r.Address.Ticket, a
}

func (m *model) release(a netip.Addr) {
	for _, n := range m.nets {
		if n.Pool.Contains(a) {
			for range 1 + m.rnd.IntN(2) {
				release(m.h, n, a)
			}
			break
		}
	}
	delete(m.held, a)
}

// look brings the engine's inventory: just what is held, so that nothing is
// freed and nothing is new.
func (m *model) look() {
	byPool := map[netip.Prefix]*ipam.InventoryNetwork{}
	inv := &ipam.Inventory{}
	for _, n := range m.nets {
		if byPool[n.Pool] == nil {
			byPool[n.Pool] = &ipam.InventoryNetwork{Subnets: []netip.Prefix{n.Pool}}
		}
	}
	for a := range m.held {
		for p, n := range byPool {
			if p.Contains(a) {
				n.Endpoints = append(n.Endpoints, ipam.InventoryEndpoint{Address: a, Container: "id-" + a.String()})
			}
		}
	}
	for _, n := range byPool {
		inv.Networks = append(inv.Networks, *n)
	}
	m.h.Call(inv)
	for _, note := range m.h.Notes {
		if note.Kind == ipam.NoteLeakFound || note.Kind == ipam.NoteLeakMended || note.Kind == ipam.NoteConflict {
			m.t.Fatalf("an inventory of all that is held finds %+v", note)
		}
	}
}

// settle frees everything and then takes every address there is: none is lost.
func (m *model) settle() {
	m.t.Helper()
	held := 0
	for _, p := range m.h.Machine().Status(m.h.Now).Pools {
		held += int(p.Held)
	}
	if held != len(m.held) {
		m.t.Fatalf("%d addresses are held, the containers know of %d", held, len(m.held))
	}
	for a := range m.held {
		m.release(a)
	}
	taken := map[netip.Prefix]int{}
	for _, n := range m.nets {
		for i := 0; ; i++ {
			r := m.h.Call(&ipam.AddressRequest{Network: ipam.Network{Space: ipam.Local, Pool: n.Pool, Range: n.Pool}, Purpose: ipam.ForContainer, Name: fmt.Sprint("last", i, n.Range)})
			if r.Err != nil {
				break
			}
			taken[n.Pool]++
		}
	}
	for p, want := range map[string]int{"10.50.0.0/27": 30, "10.50.1.0/28": 13, "fd00::/122": 63} {
		if got := taken[prefix(p)]; got != want {
			m.t.Errorf("%s: %d addresses could be taken in the end, want %d", p, got, want)
		}
	}
}
