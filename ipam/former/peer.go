package former

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
)

const (
	// Key is where bucket "identity" has the cluster of the former peer, and its clients.
	Key = "rejoined"

	bucketIdentity = "identity"

	formatRecord = 1
	maxText      = 4096 // bytes of a pool that is read back
	maxID        = 255  // bytes of a client's name
)

// Client is a holder outside Docker that had an address of the former peer.
type Client struct {
	Pool    string // a CIDR
	Address netip.Addr
	ID      string // the holder, by the name that its caller gives it
}

// Peer is the former peer of this host. Use [New]. It is not safe for concurrent use.
type Peer struct {
	out     *effect.Writer
	cluster [16]byte // zero: there was none
	clients []Client // that have not got their addresses again, in order
}

// New returns the former peer of a host that had none.
func New(out *effect.Writer) *Peer { return &Peer{out: out} }

// Begin notes what the former peer has left: the cluster that it was in, and its clients.
func (p *Peer) Begin(cluster [16]byte, clients []Client) {
	p.cluster, p.clients = cluster, slices.Clone(clients)
	slices.SortFunc(p.clients, func(a, b Client) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.ID, b.ID)) })
	p.save()
}

// Was reports whether there was a former peer.
func (p *Peer) Was() bool { return p.cluster != [16]byte{} }

// Unclaimed returns the clients that have not got their addresses again, in order of these. The list is not to be changed.
func (p *Peer) Unclaimed() []Client { return p.clients }

// Awaits reports whether a client has yet to claim the address again: the one of that name, or any if it is empty.
func (p *Peer) Awaits(a netip.Addr, id string) bool {
	return slices.ContainsFunc(p.clients, func(c Client) bool { return c.Address == a && (id == "" || c.ID == id) })
}

// Claimed notes that a client has an address in a range again, or wants none there any more; the zero range is all.
func (p *Peer) Claimed(id string, in netip.Prefix) {
	its := func(c Client) bool { return c.ID == id && (!in.IsValid() || in.Contains(c.Address)) }
	n := len(p.clients)
	if p.clients = slices.DeleteFunc(p.clients, its); len(p.clients) < n {
		p.save()
	}
}

func (p *Peer) save() {
	b := append([]byte{formatRecord}, p.cluster[:]...)
	b = codec.Uint(b, uint64(len(p.clients)))
	for _, c := range p.clients {
		b = codec.Bytes(codec.Bytes(codec.Bytes(b, c.Pool), c.Address.AsSlice()), c.ID)
	}
	p.out.Put(bucketIdentity, Key, b)
}

// Restore takes in the record. An error wraps [codec.ErrCorrupt].
func (p *Peer) Restore(value []byte) error {
	r := codec.NewReader(value)
	r.Format(formatRecord, "a peer that started over")
	p.cluster = r.ID("cluster")
	for range r.Count("number of clients", 3) {
		c := Client{Pool: string(r.Bytes("pool of a client", maxText))}
		a, ok := netip.AddrFromSlice(r.Bytes("address of a client", 16))
		if !ok {
			r.Fail("address of a client")
		}
		c.Address, c.ID = a, string(r.Bytes("name of a client", maxID))
		p.clients = append(p.clients, c)
	}
	return r.Done()
}
