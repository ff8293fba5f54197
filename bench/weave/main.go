// Command weave runs the allocator of Weave Net for the benchmark beside it, in a process and a module of its own: what it
// needs are modules of 2019, some of which no list of versions names any more.
//
//	weave [-db DIR] [-pool CIDR] [-held N] [-random]
//
// It holds N addresses of the pool, writes "ready", and then, for each line that it reads with a number of nanoseconds,
// allocates and frees for about as long, and writes how long one of each took: the median by the clock, and the mean of
// its processor time, both in nanoseconds.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/weaveworks/mesh"

	"github.com/weaveworks/weave/common"
	"github.com/weaveworks/weave/db"
	"github.com/weaveworks/weave/ipam"
	"github.com/weaveworks/weave/net/address"
)

// nobody is a network without other peers.
type nobody struct{}

func (nobody) GossipUnicast(mesh.PeerName, []byte) error {
	return errors.New("there are no other peers")
}
func (nobody) GossipBroadcast(mesh.GossipData)       {}
func (nobody) GossipNeighbourSubset(mesh.GossipData) {}

// nothing is a database that keeps nothing.
type nothing struct{}

func (nothing) Load(string, any) (bool, error) { return false, nil }
func (nothing) Save(string, any) error         { return nil }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "weave:", err)
		os.Exit(1)
	}
}

func run() error {
	dir := flag.String("db", "", "directory of its database; none: it keeps nothing")
	pool := flag.String("pool", "10.50.0.0/16", "from which it allocates")
	held := flag.Int("held", 0, "how many addresses are held")
	random := flag.Bool("random", false, "hold them at random, else from the first one on")
	flag.Parse()
	common.SetLogLevel("error")
	cidr, err := ipam.ParseCIDRSubnet(*pool)
	if err != nil {
		return err
	}
	a, err := start(*dir, cidr)
	if err != nil {
		return err
	}
	if err := occupy(a, cidr, *held, *random); err != nil {
		return err
	}
	fmt.Println("ready")
	n := 0
	pair := func() error {
		n++
		name := "container-" + strconv.Itoa(n)
		got, err := a.Allocate(name, cidr, true, never)
		if err != nil {
			return err
		}
		return a.Free(name, got)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		slice, err := time.ParseDuration(lines.Text() + "ns")
		if err != nil {
			return err
		}
		if err := measure(slice, pair); err != nil {
			return err
		}
	}
	return lines.Err()
}

func never() bool { return false }

// start returns an allocator that owns all of the pool.
func start(dir string, cidr address.CIDR) (*ipam.Allocator, error) {
	self, err := mesh.PeerNameFromString("02:00:00:00:00:01")
	if err != nil {
		return nil, err
	}
	var store db.DB = nothing{}
	if dir != "" {
		if store, err = db.NewBoltDB(filepath.Join(dir, "weave-")); err != nil {
			return nil, err
		}
	}
	a := ipam.NewAllocator(ipam.Config{
		OurName: self, OurUID: 1, OurNickname: "host-a", Seed: []mesh.PeerName{self}, Universe: cidr, Quorum: func() uint { return 1 },
		Db: store, IsKnownPeer: func(mesh.PeerName) bool { return true },
	})
	a.SetInterfaces(nobody{})
	a.Start()
	return a, nil
}

// occupy has so many addresses held.
func occupy(a *ipam.Allocator, cidr address.CIDR, held int, random bool) error {
	if !random {
		for i := range held {
			if _, err := a.Allocate("held-"+strconv.Itoa(i), cidr, true, never); err != nil {
				return err
			}
		}
		return nil
	}
	for _, o := range rand.New(rand.NewPCG(1, 1)).Perm(int(cidr.Size()) - 2)[:held] {
		one := address.CIDR{Addr: address.Add(cidr.Addr, address.Offset(o+1)), PrefixLen: cidr.PrefixLen}
		if err := a.Claim("held-"+strconv.Itoa(o), one, true, true, never); err != nil {
			return err
		}
	}
	return nil
}

// measure does pairs for about as long as it is told, and writes how long one took.
func measure(slice time.Duration, pair func() error) error {
	var times []time.Duration
	begun, used := time.Now(), processorTime()
	for len(times) == 0 || time.Since(begun) < slice {
		began := time.Now()
		if err := pair(); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	used = processorTime() - used
	slices.Sort(times)
	fmt.Println(times[len(times)/2].Nanoseconds(), used.Nanoseconds()/int64(len(times)))
	return nil
}

// processorTime returns what this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it needs nothing that could be missing
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
