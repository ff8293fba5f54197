package ipam_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Frames that can be read and that nobody can have meant: a peer may stop handing out, and does not die of them.
func TestFramesOfAnyKind(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	for i := range c.peers {
		c.ask(i, creation(cidr))
		for range 4 {
			c.ask(i, docker(cidr))
		}
	}
	c.ask(1, &ipam.ReserveRequest{First: address("10.50.0.210"), Last: address("10.50.0.220"), Kind: chronicle.KindExcluded, Note: "x"})
	c.run(time.Minute, c.agreed)
	c.wait(12 * time.Second)
	p := c.peers[0]
	disk, now := maps.Clone(p.disk), c.now
	state := p.machine.State()
	encoded, slot, pool := state.Encode(), state.Slot, state.Pools[0].Key
	var ids []peer.ID
	var heads []wire.Header
	for i := range c.peers {
		id := c.peers[i].machine.Identity()
		ids = append(ids, id.ID)
		heads = append(heads, wire.Header{Cluster: state.Cluster, From: id.ID, To: p.machine.Self(), Boot: id.Boot, Nonce: id.Nonce, Slot: slot, Digest: state.Digest()})
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	num := func() uint64 {
		return []uint64{0, 1, 2, slot - 1, slot, slot + 1, slot + 2, 255, 256, 257, 1 << 32, 1<<64 - 1, rnd.Uint64N(300), rnd.Uint64()}[rnd.IntN(14)]
	}
	who := func() peer.ID {
		return append(ids, peer.None, peer.ID{1}, peer.ID{0xff, 0xff})[rnd.IntN(6)]
	}
	rng := func() addr.Range {
		start := num()
		return addr.Range{Start: addr.Offset(start), End: addr.Offset(start + min(num(), ^uint64(0)-start))}
	}
	key := func() chronicle.PoolKey {
		if rnd.IntN(4) > 0 {
			return pool
		}
		return chronicle.PoolKey{Slot: num(), Place: uint32(num())}
	}
	action := func() chronicle.Action {
		res := chronicle.Reservation{Range: rng(), Kind: chronicle.Kind(rnd.IntN(9)), Note: "n"}
		f := chronicle.Founder{ID: who(), Name: "n", Boot: peer.Boot(num()), Machine: num()}
		return []chronicle.Action{
			chronicle.Open{Pool: key(), Range: rng(), Size: addr.Count(num())},
			chronicle.Close{Pool: key(), Range: rng()},
			chronicle.Give{Pool: key(), Range: rng(), To: who()},
			chronicle.Reserve{Pool: key(), Reservation: res},
			chronicle.Unreserve{Pool: key(), Range: rng(), Kind: res.Kind},
			chronicle.Borrow{Pool: key(), At: addr.Offset(num())},
			chronicle.Use{Pool: key()},
			chronicle.Unuse{Pool: key()},
			chronicle.DeletePool{Pool: key(), Kept: num() | 1},
			chronicle.NamePool{Name: "a", Pool: key()},
			chronicle.CreatePool{CIDR: prefix([]string{"10.50.0.0/16", "10.60.0.0/24", "fd00::/64", "10.61.0.0/31", "10.62.0.0/32"}[rnd.IntN(5)]), Reserved: []chronicle.Reservation{res}, Deal: chronicle.Deal(rnd.IntN(4)), Away: []peer.ID{who()}[:rnd.IntN(2)]},
			chronicle.Admit{Founder: f, Speaks: chronicle.Level(rnd.IntN(4))},
			chronicle.SetState{Peer: who(), Phase: chronicle.Phase(rnd.IntN(5))},
			chronicle.Evict{Peer: who()},
			chronicle.Retire{Peer: who()},
			chronicle.Forget{Peer: who(), Evicted: num()},
			chronicle.Inherit{Former: who()},
			chronicle.Raise{Level: chronicle.Level(num())},
			chronicle.Found{Cluster: [16]byte{1}, Peers: []chronicle.Founder{f}},
			chronicle.SetZone{Zone: peer.Zone([]string{"", "rack-1", "a b", "a,b"}[rnd.IntN(4)])},
		}[rnd.IntN(20)]
	}
	batch := func() []byte {
		var b []chronicle.Command
		for range rnd.IntN(5) {
			b = append(b, chronicle.Command{Author: who(), Number: num(), Action: action()})
		}
		v := chronicle.EncodeBatch(b)
		if rnd.IntN(10) == 0 {
			v[rnd.IntN(len(v))] ^= byte(1 << rnd.IntN(8))
		}
		return v
	}
	ballot := func() paxos.Ballot {
		return paxos.Ballot{Round: num(), Boot: peer.Boot(num()), Peer: who()}
	}
	form := func() wire.Formation { return wire.Formation{Size: uint32(rnd.IntN(5)), List: uint64(rnd.IntN(2))} }
	body := func() wire.Body {
		snap := append([]byte{}, encoded...)
		for range rnd.IntN(3) {
			snap[1+rnd.IntN(len(snap)-1)] ^= byte(1 << rnd.IntN(8))
		}
		return []wire.Body{
			wire.Hello{Name: "h", Machine: num(), Formation: form(), Observer: rnd.IntN(2) > 0, Listing: wire.Listing(rnd.IntN(3)), Spoken: chronicle.Level(1 + rnd.IntN(4)), Question: num()},
			wire.Welcome{
				Hello:     wire.Hello{Name: "h", Machine: num(), Formation: form(), Listing: wire.Listing(rnd.IntN(3)), Spoken: chronicle.Level(1 + rnd.IntN(4)), Question: num()},
				Undecided: rnd.IntN(2) > 0, Boot: peer.Boot(num()), Nonce: num(),
			},
			wire.Copied{Boot: peer.Boot(num()), Nonce: num(), KnownBoot: peer.Boot(num()), KnownNonce: num()},
			wire.Twin{Boot: peer.Boot(num()), Nonce: num(), OtherBoot: peer.Boot(num()), OtherNonce: num()},
			wire.Prepare{Slot: num(), Formation: form(), Ballot: ballot()},
			wire.Promise{Slot: num(), Promise: paxos.Promise{Ballot: ballot(), Accepted: ballot(), Value: batch()}},
			wire.Accept{Slot: num(), Formation: form(), Accept: paxos.Accept{Ballot: ballot(), Value: batch()}},
			wire.Accepted{Slot: num(), Accepted: paxos.Accepted{Ballot: ballot()}},
			wire.Refusal{Slot: num(), Refusal: paxos.Refusal{Ballot: ballot(), Promised: ballot()}},
			wire.Pull{After: num()},
			wire.Decided{First: num(), Values: [][]byte{batch(), batch()}},
			wire.Decided{First: slot + 1, Values: [][]byte{batch(), batch(), batch()}},
			wire.Snapshot{State: snap},
			wire.Submit{Batch: batch()},
			wire.Join{Name: "j", Machine: num()},
			wire.Beat{},
			wire.Ask{ID: num(), Want: wire.Want(rnd.IntN(6)), Pool: key(), Range: rng(), Kind: chronicle.Kind(rnd.IntN(9))},
			wire.Answer{ID: num(), Verdict: wire.Verdict(rnd.IntN(7)), Range: rng(), Free: addr.Count(num()), Text: "t"},
			wire.Announce{Pools: []wire.Spare{{Pool: key(), Free: addr.Count(num()), Resting: addr.Count(num())}}},
			wire.Inquire{ID: num(), Peer: who()},
			wire.Report{ID: num(), Peer: who(), Heard: rnd.IntN(2) > 0},
		}[rnd.IntN(21)]
	}
	refused := map[string]int{}
	for range 2000 {
		cfg := p.cfg
		cfg.Rand = rand.New(rand.NewPCG(rnd.Uint64(), 1))
		m, err := ipam.Restore(cfg, disk.Load)
		if err != nil {
			t.Fatal(err)
		}
		mine := maps.Clone(disk)
		at := now
		var trail []string
		var question uint64
		step := func(ev ipam.Event) {
			fx := m.Step(at, machinetest.Asked(m, at, ev))
			mine.Commit(fx.Save)
			question = max(question, questionOf(fx))
		}
		step(ipam.Tick{})
		for i, h := range heads[1:] {
			step(&ipam.Presence{Peer: h.From, Alive: true, Seat: i + 2})
			id := m.Identity()
			step(&ipam.Message{Frame: &wire.Frame{Header: h, Body: wire.Welcome{Hello: wire.Hello{Name: "x", Spoken: 1, Question: question}, Boot: id.Boot, Nonce: id.Nonce}}, Seat: i + 2})
		}
		for range 1 + rnd.IntN(6) {
			h := heads[1+rnd.IntN(2)]
			switch rnd.IntN(6) {
			case 0:
				h.Slot, h.Digest = num(), num()
			case 1:
				h.From, h.Boot, h.Nonce = who(), peer.Boot(num()|1), num()
				if h.From == peer.None || h.From == (peer.ID{0xff, 0xff}) {
					continue
				}
			case 2:
				h.Cluster = [16]byte{byte(rnd.IntN(2))}
			}
			raw := wire.Encode(nil, &wire.Frame{Header: h, Body: body()})
			f, err := wire.Decode(raw)
			if err != nil {
				refused[err.Error()]++
				continue
			}
			trail = append(trail, show(f))
			step(&ipam.Message{Frame: f, Seat: 2})
			if rnd.IntN(2) == 0 {
				step(&ipam.Call{ID: rnd.Uint64(), Deadline: at.Add(time.Second), Request: docker(cidr)})
			}
			at = at.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
			step(ipam.Tick{})
		}
		mustBeSound(t, m, at, cfg, mine, trail)
	}
	t.Logf("%d sorts refused", len(refused))
}

// questionOf returns what a peer asks others as it starts, 0 if it does not.
func questionOf(fx *ipam.Effects) uint64 {
	for _, s := range fx.Send {
		if f, err := wire.Decode(s.Frame); err == nil {
			if h, ok := f.Body.(wire.Hello); ok {
				return h.Question
			}
		}
	}
	return 0
}

func show(f *wire.Frame) string { return fmt.Sprintf("%T%+v", f.Body, f.Body) }
