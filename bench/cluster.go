package main

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/persist"
)

// counted is a store of which the transactions are counted that write anything.
type counted struct {
	node.Store
	commits atomic.Uint64
}

func (c *counted) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	wrote := false
	err := c.Store.Commit(func(put func(bucket string, key, value []byte) error) error {
		return fill(func(bucket string, key, value []byte) error {
			wrote = true
			return put(bucket, key, value)
		})
	})
	if wrote {
		c.commits.Add(1)
	}
	return err
}

// carrier is a network of which the frames are counted that a node gives it for others.
type carrier struct {
	node.Carrier
	frames atomic.Uint64
}

func (c *carrier) Send(to peer.ID, frames ...[]byte) {
	c.frames.Add(uint64(len(frames)))
	c.Carrier.Send(to, frames...)
}

func (c *carrier) Broadcast(frame []byte) {
	c.frames.Add(1)
	c.Carrier.Broadcast(frame)
}

// traffic counts bytes.
type traffic struct {
	packets atomic.Uint64 // what packets carry
	streams atomic.Uint64 // what streams carry, both ways
}

// meter counts what a peer sends, and what it is answered on the streams that it opens.
type meter struct {
	*gossip.Sockets
	*traffic
}

func (m meter) WriteTo(b []byte, to string) (time.Time, error) {
	m.packets.Add(uint64(len(b)))
	return m.Sockets.WriteTo(b, to)
}

func (m meter) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	conn, err := m.Sockets.DialTimeout(to, timeout)
	if err != nil {
		return nil, err
	}
	return metered{conn, &m.streams}, nil
}

type metered struct {
	net.Conn
	bytes *atomic.Uint64
}

func (c metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(uint64(n))
	return n, err
}

func (c metered) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(uint64(n))
	return n, err
}

// cluster is some peers on addresses of their own of the loopback interface, with ringlet's own network between them.
type cluster struct {
	key     []byte
	port    int
	deal    chronicle.Deal
	members []*member
	traffic traffic

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	stores []*persist.Store
}

// member is a peer in this process.
type member struct {
	*node.Node
	store   *counted
	carrier *carrier
}

func (b *bench) newCluster() (*cluster, error) {
	l, err := net.Listen("tcp", loopback(0, 0).String()) //nolint:noctx // it is there at once
	if err != nil {
		return nil, fmt.Errorf("no addresses for peers: %w", err)
	}
	defer l.Close()
	c := &cluster{key: make([]byte, 32), port: l.Addr().(*net.TCPAddr).Port}
	_, _ = crand.Read(c.key) // never fails
	c.ctx, c.cancel = context.WithCancel(b.ctx)
	return c, nil
}

// stop ends the peers.
func (c *cluster) stop() {
	c.cancel()
	c.wg.Wait()
	for _, s := range c.stores {
		_ = s.Close()
	}
}

// loopback returns where the peer of a number listens: all of 127.0.0.0/8 is this host on Linux.
func loopback(i, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 77, byte(i / 250), byte(1 + i%250)}), uint16(port))
}

// at returns where the peer of a number listens.
func (c *cluster) at(i int) netip.AddrPort { return loopback(i, c.port) }

// seeds are the peers by which those of higher numbers find the cluster.
func (c *cluster) seeds(i int) []string {
	var list []string
	for j := range min(i, 3) {
		list = append(list, c.at(j).String())
	}
	return list
}

// add starts the next peer. The first one founds the cluster.
func (c *cluster) add(store node.Store) error {
	i := len(c.members)
	m := &member{store: &counted{Store: store}}
	var err error
	m.Node, err = node.New(node.Config{
		Machine: ipam.Config{
			Name: peer.Name(fmt.Sprintf("peer-%d", i)), Rand: rand.New(rand.NewPCG(rand.Uint64(), 1)), Deal: c.deal,
			Join: i > 0, HostBoot: ipam.HostBoot{ID: "new"}, BootAlone: true, Marks: ipam.Marks{Label: label},
		},
		Store: m.store, Logger: silent,
	})
	if err != nil {
		return err
	}
	id, err := m.Identity(c.ctx)
	if err != nil {
		return err
	}
	g, err := gossip.New(gossip.Config{
		ID: id.ID, Name: id.Name, Boot: id.Boot, Nonce: id.Nonce, Bind: c.at(i), Advertise: c.at(i), Join: c.seeds(i), Label: label,
		Keys: func() ([][]byte, error) { return [][]byte{c.key}, nil }, Logger: silent, Deliver: m.Deliver,
		Presence: func(p gossip.Presence) {
			m.Present(ipam.Presence{Peer: p.ID, Alive: p.Alive, Name: p.Name, Seat: p.SeedIndex, Addr: p.Addr.String()})
		},
		Transport: func(bind netip.AddrPort) (memberlist.Transport, error) {
			t, err := gossip.Listen(bind, silent)
			return meter{t, &c.traffic}, err
		},
	})
	if err != nil {
		return err
	}
	m.carrier = &carrier{Carrier: g}
	m.Carry(m.carrier)
	c.wg.Go(func() { _ = m.Run(c.ctx) }) // a commit that failed is told by all calls that follow
	c.wg.Go(func() { _ = g.Run(c.ctx) })
	c.members = append(c.members, m)
	return nil
}

// addDurable starts the next peer with a database of its own.
func (c *cluster) addDurable(dir string) error {
	store, err := openStore(filepath.Join(dir, fmt.Sprint("peer-", len(c.members))), nil)
	if err != nil {
		return err
	}
	c.stores = append(c.stores, store)
	return c.add(store)
}

// joinLimit is how long peers may take to become one cluster. A hundred take less than a minute on two processors that
// nobody else needs, and many times that where dozens do.
const joinLimit = 5 * time.Minute

// await returns when all peers are of one cluster of n, and know the same of it.
func (c *cluster) await(n int) error {
	end := time.Now().Add(joinLimit)
	for {
		wrong, err := c.wrong(n)
		switch {
		case err != nil:
			return err
		case wrong == "":
			return nil
		case time.Now().After(end):
			return fmt.Errorf("no cluster of %d peers within %v: %s", n, joinLimit, wrong)
		}
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wrong tells what is missing.
func (c *cluster) wrong(n int) (string, error) {
	var slot uint64
	for i, m := range c.members {
		st, err := m.Status(c.ctx)
		if err != nil {
			return "", err
		}
		if i == 0 {
			slot = st.Slot
		}
		if st.State != ipam.Ready || len(st.Peers) != n || st.Slot != slot {
			return fmt.Sprintf("%s is %s, knows %d peers and %d slots; the first one knows %d", st.Self.Name, st.State, len(st.Peers), st.Slot, slot), nil
		}
	}
	return "", nil
}
