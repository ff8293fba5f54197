package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/subnets"
)

type (
	// Subnets is [subnets.Plan].
	Subnets = subnets.Plan
	// HostBoot is [start.HostBoot].
	HostBoot = start.HostBoot
)

// Config is what a [Machine] is told once. The zero value of a field with a
// default means the default.
type Config struct {
	Name    peer.Name  // what people call this peer; not empty
	Zone    peer.Zone  // what fails together with this peer; empty: nobody has said
	Machine uint64     // hash of the machine's ID; 0: none
	Rand    *rand.Rand // makes IDs; must not be nil. Seeded in tests, from the system elsewhere

	Rest time.Duration  // how long a freed address rests; default 5 minutes, negative for none
	Deal chronicle.Deal // how much of a new pool is dealt out at once

	// Chunk is how many addresses a peer opens at a time; 0: the pool's size
	// over 8 times the peers, at least 8 and at most 1,024.
	Chunk addr.Count

	Subnets Subnets // which ones are chosen for networks that name none

	// Grace is how old a held address must be, and how long apart two
	// inventories that lack it, before it is freed; default 20 seconds, so
	// that all is settled within a minute.
	Grace time.Duration

	// AwaitInventory says that inventories will come, since there is an engine
	// that can be asked. What only an inventory can tell is then waited for, up
	// to a call's deadline: a new database chooses no address before the first
	// complete one, and nobody takes over an address before one has told
	// whether its holder lives.
	AwaitInventory bool

	// NoMAC says that engines give endpoints no MAC before they ask for an address, as networks of
	// driver ipvlan need it. On engines before 29 a container's request then has no options: with an
	// address it comes as [ForUnmarked], and is refused once a list tells what it is. So AwaitInventory is to be set.
	NoMAC bool

	// Join makes a peer without a cluster wait for one, and never found one
	// alone.
	Join bool
	// FoundAlone makes a peer without a cluster found one also if it has looked
	// for one before: an operator says that there is none. One that hesitates
	// looks for some seconds whether it sees one all the same, and joins that.
	FoundAlone bool
	// Hesitate makes a peer without a cluster found one, alone or with others,
	// only when the engine's first complete inventory has no networks: else its
	// database was lost, other hosts may hold what this one would hand out, and
	// it waits for them.
	Hesitate bool
	// CallTime is how long an engine waits for an answer at most, default 20
	// seconds: a container may be without an endpoint for as long after it was
	// granted its first address, as its engine asks for another one.
	CallTime time.Duration
	// Formation is how a peer without a cluster founds one with others.
	Formation Formation
	// HostBoot is the start of the host in which the process runs.
	HostBoot HostBoot
	// BootAlone has this peer go on alone if no majority has answered in time
	// after a start, for which it waits a little less than CallTime.
	BootAlone bool
	// EvictAfter is how long a peer may be silent before it is evicted; 0: it
	// never is.
	EvictAfter time.Duration

	// Spoken is the highest level that this peer speaks; default
	// [chronicle.Spoken]. Another one makes it stand for an older or a later
	// release, in tests.
	Spoken chronicle.Level

	faults faults // of tests
	// Quarantine is how long the space of an evicted peer is kept back before
	// it is given up by itself; 0: until somebody says that the host is gone.
	Quarantine time.Duration
	// Remains is what a new peer carries over from the one that was on its host before; nil:
	// there is nothing. A peer that has a database does not heed it.
	Remains *Remains
	// Decided is what people had decided here before the database was lost; nil: nothing is known. A peer that founds a
	// cluster alone makes that again. One that has a cluster, or joins one, does not heed it.
	Decided *Decided
	Marks
}

// Marks are what a database has to agree with.
type Marks struct {
	// Label is the name of the cluster. A database of another label is not
	// used if it has pools.
	Label string
	// Place says where the database lies: what tells its file and machine from
	// others. A database that says otherwise is a copy, or was put back, and
	// is not used. Empty: nobody looks.
	Place string
}

func (c Config) withDefaults() (Config, error) {
	if c.Name == "" || len(c.Name) > peer.MaxName {
		return c, fmt.Errorf("the peer's name must have 1 to %d bytes, not %d", peer.MaxName, len(c.Name))
	}
	if err := c.Zone.Check(); err != nil {
		return c, fmt.Errorf("the peer's zone cannot be used: %w", err)
	}
	if c.Rand == nil {
		return c, errors.New("no source of randomness")
	}
	if c.Rest == 0 {
		c.Rest = 5 * time.Minute
	}
	c.Rest = max(c.Rest, 0)
	c.Spoken = cmp.Or(c.Spoken, chronicle.Spoken)
	c.Grace = cmp.Or(c.Grace, 20*time.Second)
	c.CallTime = cmp.Or(c.CallTime, 20*time.Second)
	c.Subnets = c.Subnets.WithDefaults()
	return c, nil
}
