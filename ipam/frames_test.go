package ipam_test

import (
	"maps"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/wire"
)

// FuzzFrames brings a peer of a cluster what another one cannot have meant. It may stop handing out, and does neither
// die of it nor go on with that for ever, and what it has then it restores.
func FuzzFrames(f *testing.F) {
	c := newLockstepWith(f, 3, func(*lockstep) {})
	seen := map[wire.Type]int{}
	c.lose = func(x flight) bool {
		if k := x.frame.Body.Type(); seen[k] < 6 {
			seen[k]++
			f.Add(wire.Encode(nil, x.frame), uint8(seen[k]))
		}
		return false
	}
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	for i := range c.peers {
		c.ask(i, creation(cidr))
		for range 4 {
			c.ask(i, docker(cidr))
		}
	}
	c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Address: address("10.50.0.200")})
	c.ask(1, &ipam.ReserveRequest{First: address("10.50.0.210"), Last: address("10.50.0.220"), Kind: 6, Note: "x"})
	c.run(time.Minute, c.agreed)
	c.wait(12 * time.Second)
	p := c.peers[0]
	disk, now := maps.Clone(p.disk), c.now
	heads := map[int]wire.Header{}
	for i := 1; i < 3; i++ {
		other := c.peers[i].machine
		id := other.Identity()
		heads[i] = wire.Header{Cluster: other.State().Cluster, From: id.ID, To: p.machine.Self(), Boot: id.Boot, Nonce: id.Nonce, Slot: other.State().Slot, Digest: other.State().Digest()}
	}
	f.Fuzz(func(t *testing.T, b []byte, how uint8) {
		var frames []*wire.Frame
		for len(b) > 0 { // one behind the other, each with its length
			n := len(b)
			if how&0x80 != 0 {
				n = min(len(b), 1+int(b[0]))
			}
			if x, err := wire.Decode(b[:n]); err == nil {
				frames = append(frames, x)
			}
			b = b[n:]
		}
		if len(frames) == 0 {
			return
		}
		cfg := p.cfg
		m, err := ipam.Restore(cfg, disk.Load)
		if err != nil {
			t.Fatal(err)
		}
		mine := maps.Clone(disk)
		var question uint64
		step := func(ev ipam.Event) {
			fx := m.Step(now, machinetest.Asked(m, now, ev))
			mine.Commit(fx.Save)
			question = max(question, questionOf(fx))
		}
		step(ipam.Tick{})
		for i, h := range heads {
			step(&ipam.Presence{Peer: h.From, Alive: true, Seat: i + 1})
			id := m.Identity()
			step(&ipam.Message{Frame: &wire.Frame{Header: h, Body: wire.Welcome{Hello: wire.Hello{Name: "x", Spoken: 1, Question: question}, Boot: id.Boot, Nonce: id.Nonce}}, Seat: i + 1})
		}
		for _, x := range frames {
			from := 1 + int(how)%2
			if how&4 == 0 {
				h := heads[from]
				if how&8 != 0 {
					h.Slot, h.Digest = x.Slot, x.Digest
				}
				h.To = m.Self()
				x.Header = h
			}
			step(&ipam.Message{Frame: x, Seat: from + 1})
		}
		step(ipam.Tick{})
		mustBeSound(t, m, now, cfg, mine, frames)
	})
}

// mustBeSound fails the test if an invariant is broken of which the status says nothing, or what is on disk cannot be
// restored. What was done is said then.
func mustBeSound(t testing.TB, m *ipam.Machine, now time.Time, cfg ipam.Config, disk machinetest.Disk, done any) {
	t.Helper()
	errs := m.Check(now)
	if known := m.Status(now).Verdict == ipam.Failed; len(errs) > 0 && !known {
		t.Fatalf("%+v: %v", done, errs)
	}
	if _, err := ipam.Restore(cfg, disk.Load); err != nil {
		t.Fatalf("%+v: not restored: %v", done, err)
	}
}
