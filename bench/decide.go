package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// operator is somebody who excludes an address and takes that back, in turn: each a command that all voters decide.
type operator struct {
	of       *member
	address  netip.Addr
	excluded bool
}

func (o *operator) next() error {
	o.excluded = !o.excluded
	var err error
	if o.excluded {
		_, err = o.of.Reserve(context.Background(), ipam.ReserveRequest{
			First: o.address, Last: o.address, Kind: chronicle.KindExcluded, Note: "bench",
		})
	} else {
		_, err = o.of.Unreserve(context.Background(), ipam.UnreserveRequest{First: o.address, Last: o.address, Kind: chronicle.KindExcluded})
	}
	return err
}

// excludedIn is a pool of which no peer owns anything.
var excludedIn = netip.MustParsePrefix("10.60.0.0/16")

// voters is how many decide a command of P11.
const voters = 3

// measureDecision measures what it takes to have a command decided by three voters, on loopback, each with a database of
// its own: P11. Beside it runs what that cannot do without.
func measureDecision(b *bench) error {
	dir, err := b.sub("voters")
	if err != nil {
		return err
	}
	c, err := b.newCluster()
	if err != nil {
		return err
	}
	defer c.stop()
	c.deal = chronicle.DealNone // so that what is excluded is nobody's
	for range voters {
		if err := c.addDurable(dir); err != nil {
			return err
		}
	}
	if err := c.await(voters); err != nil {
		return err
	}
	first := c.members[0] // the lowest voter: commands of the others are brought to it
	if _, _, err := first.CreatePool(c.ctx, excludedIn, ""); err != nil {
		return err
	}
	if err := c.await(voters); err != nil {
		return err
	}
	if err := b.measureSlots(c, dir); err != nil {
		return err
	}
	return b.countMessages(c)
}

func (b *bench) measureSlots(c *cluster, dir string) error {
	var floors []*boltFloor
	for i := range voters {
		floor, err := openBolt(filepath.Join(dir, fmt.Sprintf("floor-%d.db", i)))
		if err != nil {
			return err
		}
		defer floor.db.Close()
		floors = append(floors, floor)
	}
	commit := func(i int) func() (time.Duration, error) {
		return timed(func() error { return floors[i].commit(1) })
	}
	there, closeThere, err := roundTrip()
	if err != nil {
		return err
	}
	defer closeThere()
	of := func(m *member, from int) func(int) func() (time.Duration, error) {
		return func(i int) func() (time.Duration, error) {
			return timed((&operator{of: m, address: nth(excludedIn.Addr(), from+2*i)}).next)
		}
	}
	first, last := c.members[0], c.members[voters-1]
	got, err := interleave(b.rounds, 10*b.slice, []contender{
		first.watched(clients("one", 1, of(first, 1_000))),
		first.watched(clients("many", many, of(first, 2_000))),
		clients("elsewhere", 1, of(last, 3_000)),
		clients("bbolt", 1, commit),
		clients("bbolt by all", voters, commit),
		oneClient("round trip", timed(there)),
	})
	if err != nil {
		return err
	}
	b.addSlots(got)
	return nil
}

// addSlots adds the rows of P11.
func (b *bench) addSlots(got results) {
	least := func(r map[string]sample) float64 { return 3*r["bbolt"].p50 + 2*r["round trip"].p50 }
	b.add(row{
		goal: "P11", what: "a command decided by 3 voters on loopback, one at a time, against 3 bbolt commits and 2 round trips of a packet", limit: 1.5,
		got: got.of(func(r map[string]sample) float64 { return r["one"].p50 / least(r) }),
		note: fmt.Sprintf("%s against %s and %s each; a command of another peer than the one that proposes takes %s; the processor time of all three is %s", duration(got.p50("one").median),
			duration(got.p50("bbolt").median), duration(got.p50("round trip").median), duration(got.p50("elsewhere").median),
			duration(got.of(func(r map[string]sample) float64 { return r["one"].busy }).median)),
	})
	b.add(row{
		goal: "P11", what: "the same, against 3 commits one after the other and 1 round trip, as many as it has, while two more databases on the disk commit, as they do", limit: noGoal,
		got: got.of(func(r map[string]sample) float64 {
			return r["one"].p50 / (3*r["bbolt by all"].p50 + r["round trip"].p50)
		}),
		note: "such a commit takes " + duration(got.p50("bbolt by all").median),
	})
	b.add(row{
		goal: "P11", what: "a slot with 64 waiting, against 3 commits and 2 round trips", limit: 1.5,
		got:  got.of(func(r map[string]sample) float64 { return 1e9 * r["many"].batch / r["many"].rate / least(r) }),
		note: fmt.Sprintf("%s commands a second, each of which takes %s", number(got.rate("many")), duration(got.p50("many").median)),
	})
	b.add(row{
		goal: "P11", what: "commands in a slot with 64 waiting, against one at a time, counted", limit: 2, least: true,
		got: got.of(func(r map[string]sample) float64 { return r["many"].batch / r["one"].batch }),
		note: fmt.Sprintf("%s against %s", number(got.of(func(r map[string]sample) float64 { return r["many"].batch }).median),
			number(got.of(func(r map[string]sample) float64 { return r["one"].batch }).median)),
	})
}

// watched is a contender of which is counted how many commands share a slot, and what each costs all peers.
func (m *member) watched(c contender) contender {
	return contender{c.name, func(slice time.Duration) (sample, error) {
		before, err := m.Status(context.Background())
		if err != nil {
			return sample{}, err
		}
		begun, used := time.Now(), listen().own
		s, err := c.run(slice)
		if err != nil {
			return sample{}, err
		}
		took := time.Since(begun)
		used = listen().own - used
		after, err := m.Status(context.Background())
		done := s.rate * took.Seconds()
		s.batch, s.busy = done/float64(max(after.Slot-before.Slot, 1)), 1e9*used/done
		return s, err
	}}
}

// roundTrip returns a call that sends a packet as long as one of a peer through the loopback interface, and waits for it
// to come back.
func roundTrip() (call func() error, closeAll func(), err error) {
	there, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(loopback(0, 0)))
	if err != nil {
		return nil, nil, err
	}
	here, err := net.DialUDP("udp", nil, there.LocalAddr().(*net.UDPAddr))
	if err != nil {
		_ = there.Close()
		return nil, nil, err
	}
	go func() { // ends when the socket is closed
		packet := make([]byte, packetSize)
		for {
			n, from, err := there.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			_, _ = there.WriteToUDPAddrPort(packet[:n], from)
		}
	}()
	packet := make([]byte, packetSize)
	return func() error {
		if _, err := here.Write(packet); err != nil {
			return err
		}
		_, err := here.Read(packet)
		return err
	}, func() { _ = here.Close(); _ = there.Close() }, nil
}

// packetSize is about as long as a packet of one question to a voter, encrypted.
const packetSize = 200

// countMessages counts what an allocation costs others: G23.
func (b *bench) countMessages(c *cluster) error {
	of := c.members[1]
	caller := &caller{node: of.Node, net: network16, name: "counted"}
	pairs := func(n int) error {
		for range 2 * n {
			if err := caller.next(); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := of.RequestPool(c.ctx, ipam.PoolRequest{Space: ipam.Local, Pool: network16.Pool}); err != nil {
		return err
	}
	if err := pairs(10); err != nil { // it has space of its own from now on
		return err
	}
	if err := c.await(voters); err != nil {
		return err
	}
	// What peers say now and then anyway falls into few of these.
	const times, n = 20, 50
	others := func() float64 { return float64(c.members[0].store.commits.Load() + c.members[2].store.commits.Load()) }
	var sent, written []float64
	for range times {
		frames, commits := of.carrier.frames.Load(), others()
		if err := pairs(n); err != nil {
			return err
		}
		sent = append(sent, float64(of.carrier.frames.Load()-frames)/n)
		written = append(written, (others()-commits)/n)
	}
	b.add(row{goal: "G23", what: "frames to others for an allocation and its release in space of the peer's own, counted", limit: 0, unit: " ", got: spreadOf(sent)})
	b.add(row{goal: "G23", what: "transactions of the others for it, counted", limit: 0, unit: " ", got: spreadOf(written)})
	return nil
}
