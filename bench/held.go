package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// network8 has room for a million.
var network8 = ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.0.0.0/8"), Range: netip.MustParsePrefix("10.0.0.0/8")}

// textOf is how many bytes the names and IDs of makeHeld have.
const textOf = len("container-0000000") + 64

// subnets returns so many networks side by side, each with a pool of that length of prefix.
func subnets(n, bits int) []ipam.Network {
	list := make([]ipam.Network, n)
	for i := range list {
		p := netip.PrefixFrom(nth(network8.Pool.Addr(), i<<(32-bits)), bits)
		list[i] = ipam.Network{Space: ipam.Local, Pool: p, Range: p}
	}
	return list
}

// makeHeld makes a database in which so many addresses are held, as many of each network.
func makeHeld(dir string, held int, networks ...ipam.Network) error {
	return makeDatabase(dir, held, func(i int) (ipam.Network, netip.Addr) { return networks[i*len(networks)/held], netip.Addr{} })
}

// makeDatabase makes a database in which so many addresses are held, each by a container with a name, a MAC and an ID, as
// ringlet writes it: the core's records, many to a transaction. where returns the network of the i-th, from 0 on, and its
// address, an invalid one for any.
func makeDatabase(dir string, held int, where func(i int) (ipam.Network, netip.Addr)) error {
	store, err := openStore(dir, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), Deal: chronicle.DealAll, Marks: ipam.Marks{Label: label}})
	if err != nil {
		return err
	}
	now := time.Now()
	for done := 0; done < held; {
		err := store.Commit(func(put func(bucket string, key, value []byte) error) error {
			for range min(10_000, held-done) {
				network, address := where(done)
				done++
				fx := m.Step(now, &ipam.Call{ID: uint64(done), Deadline: now.Add(time.Second), Request: &ipam.AddressRequest{
					Network: network, Address: address, Purpose: ipam.ForContainer, Name: fmt.Sprintf("container-%07d", done),
					MAC: ipam.MAC{2, 0x42, byte(done >> 16), byte(done >> 8), byte(done), 1}, ID: fmt.Sprintf("%064x", done),
				}})
				if len(fx.Reply) != 1 || fx.Reply[0].Err != nil {
					return fmt.Errorf("answers %+v", fx.Reply)
				}
				for _, r := range fx.Save {
					if err := put(r.Bucket, r.Key, r.Value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startHeld runs ringlet on a new database in which so many addresses are held, and returns a client of that pool.
func (b *bench) startHeld(name string, held int) (*engine, *process, error) {
	dir, err := b.sub(name)
	if err != nil {
		return nil, nil, err
	}
	if err := makeHeld(dir, held, network8); err != nil {
		return nil, nil, err
	}
	return b.startOn(dir, name, network8)
}

// startOn runs ringlet on the database in dir, and returns a client of the network with that name.
func (b *bench) startOn(dir, name string, network ipam.Network) (*engine, *process, error) {
	server, err := b.startRinglet(dir)
	if err != nil {
		return nil, nil, err
	}
	e, err := newEngine(server.path, name)
	if err != nil {
		server.stop()
		return nil, nil, err
	}
	e.pool = "ringlet1/local/" + network.Pool.String()
	return e, server, nil
}
