package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// measureSocket measures durable calls over the socket: P3, P4 and P6, with the syncs that they take.
func measureSocket(b *bench) error {
	dir, err := b.sub("socket")
	if err != nil {
		return err
	}
	server, err := b.startRinglet(dir)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := b.measureOne(dir, server); err != nil {
		return err
	}
	return b.measureMany(server)
}

// measureHeld has one client at a time at two servers of which one holds ten times as much: P12.
func measureHeld(b *bench) error {
	few := 100_000
	if b.short {
		few = 1_000
	}
	var list []contender
	for name, held := range map[string]int{"few": few, "many": 10 * few} {
		e, server, err := b.startHeld("held-"+name, held)
		if err != nil {
			return err
		}
		defer server.stop()
		list = append(list, oneClient(name, e.allocation))
	}
	got, err := interleave(b.rounds, 10*b.slice, list)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P12", what: fmt.Sprintf("one durable allocation over the socket: ten times held, %d", 10*few), limit: 1.2, got: got.times("many", "few"),
		note: fmt.Sprintf("%s against %s", duration(got.p50("many").median), duration(got.p50("few").median)),
	})
	return nil
}

// measureOne has one client at a time.
func (b *bench) measureOne(dir string, server *process) error {
	floor, err := openBolt(filepath.Join(dir, "floor.db"))
	if err != nil {
		return err
	}
	defer floor.db.Close()
	e, err := newEngine(server.path, "one")
	if err != nil {
		return err
	}
	bareDir, err := b.sub("bare")
	if err != nil {
		return err
	}
	bare, err := b.startBare(bareDir)
	if err != nil {
		return err
	}
	defer bare.stop()
	atBare, err := newEngine(bare.path, "one")
	if err != nil {
		return err
	}
	overwrite, closeFile, err := syncer(filepath.Join(dir, "overwritten"))
	if err != nil {
		return err
	}
	defer closeFile()
	count, err := b.countSyncs(server)
	if err != nil {
		return err
	}
	got, err := interleave(b.rounds, 10*b.slice, []contender{
		oneClient("allocation", e.allocation),
		oneClient("bare", atBare.allocation),
		oneClient("no-op", timed(e.noop)),
		oneClient("bbolt", timed(func() error { return floor.commit(1) })),
		oneClient("fdatasync", timed(overwrite)),
	})
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P3", what: "one durable allocation over the socket, against a no-op call over it and a bbolt commit of one key", limit: 1.15,
		got: got.of(func(r map[string]sample) float64 { return r["allocation"].p50 / (r["no-op"].p50 + r["bbolt"].p50) }),
		note: fmt.Sprintf("%s against %s and %s", duration(got.p50("allocation").median), duration(got.p50("no-op").median),
			duration(got.p50("bbolt").median)),
	})
	b.add(row{
		goal: "P3", what: "the same, against a no-op call and an fdatasync of 4 KB", limit: 2.2,
		got: got.of(func(r map[string]sample) float64 { return r["allocation"].p50 / (r["no-op"].p50 + r["fdatasync"].p50) }),
	})
	b.add(row{
		goal: "P3", what: "the same, against the same call of a server that does nothing for it but such a commit", limit: 1.15,
		got: got.times("allocation", "bare"), note: "that takes " + duration(got.p50("bare").median),
	})
	return count("1 client: syncs for each durable call", 2)
}

// measureMany has 64 clients at once.
func (b *bench) measureMany(server *process) error {
	dir, err := b.sub("memory")
	if err != nil {
		return err
	}
	fromMemory, err := b.startMemory(dir)
	if err != nil {
		return err
	}
	defer fromMemory.stop()
	var list []contender
	for name, socket := range map[string]string{"durable": server.path, "memory": fromMemory.path} {
		e, err := engines(socket, name, many)
		if err != nil {
			return err
		}
		list = append(list, clients(name, many, func(i int) func() (time.Duration, error) { return timed(e[i].next) }))
	}
	noops, err := engines(server.path, "noop", many)
	if err != nil {
		return err
	}
	list = append(list, clients("no-op", many, func(i int) func() (time.Duration, error) { return timed(noops[i].noop) }))
	etcd, err := b.etcd()
	if err != nil {
		return err
	}
	if etcd != nil {
		defer etcd.stop()
		list = append(list, clients("etcd", many, etcd.client))
	}
	count, err := b.countSyncs(server)
	if err != nil {
		return err
	}
	got, err := interleave(b.rounds, 10*b.slice, list)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P4", what: "64 clients, durable, over the socket: rate against the same server from memory", limit: 0.8, least: true,
		got: got.rates("durable", "memory"), note: fmt.Sprintf("%s against %s calls a second", number(got.rate("durable")), number(got.rate("memory"))),
	})
	b.add(row{goal: "P4", what: "the same, against no-op calls", limit: 0.5, least: true, got: got.rates("durable", "no-op")})
	if etcd != nil {
		b.add(row{
			goal: "P4", what: "the same, against etcd's create-if-absent", limit: 2, least: true,
			got: got.rates("durable", "etcd"), note: "it does " + number(got.rate("etcd")) + " a second",
		})
	}
	b.add(row{
		goal: "P6", what: "64 clients: the slowest hundredth against the median", limit: 4,
		got:  got.of(func(r map[string]sample) float64 { return r["durable"].p99 / r["durable"].p50 }),
		note: fmt.Sprintf("no-op calls have %s", number(got.of(func(r map[string]sample) float64 { return r["no-op"].p99 / r["no-op"].p50 }).median)),
	})
	return count("64 clients: syncs for each durable call", 0.15)
}

// syncsEach is how many syncs a transaction of bbolt has: one of the pages, one of the page that says where they are.
const syncsEach = 2

// countSyncs begins to count how many calls a server makes durable together. What it returns adds the row: G7.
func (b *bench) countSyncs(server *process) (func(what string, limit float64) error, error) {
	admin := unixDialer(filepath.Join(filepath.Dir(server.path), adminSocket))
	before, err := scrape(b.ctx, admin)
	if err != nil {
		return nil, err
	}
	return func(what string, limit float64) error {
		after, err := scrape(b.ctx, admin)
		if err != nil {
			return err
		}
		since := func(name string) float64 { return after[name] - before[name] }
		transactions, calls := since("ringlet_commit_batch_size_count"), since("ringlet_commit_batch_size_sum")
		each := syncsEach * transactions / calls
		b.add(row{
			goal: "G7", what: what + ", counted", limit: limit, unit: " ", got: spread{each, each, each},
			note: fmt.Sprintf("%.0f transactions for %.0f calls", transactions, calls),
		})
		return nil
	}, nil
}

// startHeld runs ringlet on a new database in which so many addresses are held, and returns a client of that pool.
func (b *bench) startHeld(name string, held int) (*engine, *process, error) {
	dir, err := b.sub(name)
	if err != nil {
		return nil, nil, err
	}
	if err := makeHeld(dir, held); err != nil {
		return nil, nil, err
	}
	server, err := b.startRinglet(dir)
	if err != nil {
		return nil, nil, err
	}
	e, err := newEngine(server.path, name)
	if err != nil {
		server.stop()
		return nil, nil, err
	}
	e.pool = "ringlet1/local/" + network8.Pool.String()
	return e, server, nil
}
