package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// measureSocket measures durable calls over the socket: P3, P4 and P6, with what the G's ask of them, and the syncs that
// they take.
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
	etcd, err := b.etcd()
	if err != nil {
		return err
	}
	if etcd != nil {
		defer etcd.stop()
	}
	if err := b.measureOne(dir, server, etcd); err != nil {
		return err
	}
	return b.measureMany(server, etcd)
}

// measureHeld has one client at a time at two servers of which one holds ten times as much: P12. What is to be said and
// written of all that after a start, a third of a minute's work where it is a million, comes before.
func measureHeld(b *bench) error {
	few, quiet := 100_000, 5*time.Second
	if b.short {
		few, quiet = 1_000, 0
	}
	var list []contender
	for name, held := range map[string]int{"few": few, "many": 10 * few} {
		e, server, err := b.startHeld("held-"+name, held)
		if err != nil {
			return err
		}
		defer server.stop()
		if err := b.rest(server, quiet); err != nil {
			return err
		}
		list = append(list, oneClient(name, firstOf(e.next)))
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

// measureOne has one client at a time. There may be no etcd.
func (b *bench) measureOne(dir string, server *process, etcd *etcd) error {
	floor, err := openBolt(filepath.Join(dir, "floor.db"))
	if err != nil {
		return err
	}
	defer floor.db.Close()
	e, err := newEngine(server.path, "one")
	if err != nil {
		return err
	}
	bare, err := b.startSelf(bareArg)
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
	list := []contender{
		oneClient("allocation", firstOf(e.next)),
		oneClient("bare", firstOf(atBare.next)),
		oneClient("no-op", timed(e.noop)),
		oneClient("bbolt", timed(func() error { return floor.commit(1) })),
		oneClient("fdatasync", timed(overwrite)),
	}
	if etcd != nil {
		list = append(list, oneClient("etcd", firstOf(etcd.keys(many)))) // none of those of the many
	}
	got, err := interleave(b.rounds, 10*b.slice, list)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P3 G5", what: "one durable allocation over the socket, against a no-op call over it and a bbolt commit of one key", limit: 1.15,
		got: got.of(func(r map[string]sample) float64 { return r["allocation"].p50 / (r["no-op"].p50 + r["bbolt"].p50) }),
		note: fmt.Sprintf("%s against %s and %s", duration(got.p50("allocation").median), duration(got.p50("no-op").median),
			duration(got.p50("bbolt").median)),
	})
	b.add(row{
		goal: "P3 G6", what: "the same, against a no-op call and an fdatasync of 4 KB", limit: 2.2,
		got: got.of(func(r map[string]sample) float64 { return r["allocation"].p50 / (r["no-op"].p50 + r["fdatasync"].p50) }),
	})
	b.add(row{
		goal: "P3", what: "the same, against the same call of a server that does nothing for it but such a commit", limit: 1.15,
		got: got.times("allocation", "bare"), note: "that takes " + duration(got.p50("bare").median),
	})
	if etcd != nil {
		b.add(row{
			goal: "G11", what: "the same, how many times as long etcd's create-if-absent takes", limit: 1, least: true,
			got: got.times("etcd", "allocation"), note: duration(got.p50("etcd").median),
		})
	}
	return b.countSyncs(server, "1 client: syncs for each durable call", 2, oneClient("allocation", firstOf(e.next)))
}

// measureMany has 64 clients at once. There may be no etcd.
func (b *bench) measureMany(server *process, etcd *etcd) error {
	callers := func(name string, next func(client int) func() error) contender {
		return clients(name, many, func(i int) func() (time.Duration, error) { return timed(next(i)) })
	}
	noops, err := engines(server.path, "noop", many)
	if err != nil {
		return err
	}
	durable, err := engines(server.path, "durable", many)
	if err != nil {
		return err
	}
	list := []contender{
		callers("no-op", func(i int) func() error { return noops[i].noop }),
		callers("durable", func(i int) func() error { return durable[i].next }),
	}
	for name, arg := range map[string]string{"memory": memoryArg, "one by one": oneByOneArg} {
		beside, err := b.startSelf(arg)
		if err != nil {
			return err
		}
		defer beside.stop()
		e, err := engines(beside.path, name, many)
		if err != nil {
			return err
		}
		list = append(list, callers(name, func(i int) func() error { return e[i].next }))
	}
	if etcd != nil {
		list = append(list, callers("etcd", etcd.keys),
			callers("block each", func(i int) func() error { return etcd.block(fmt.Sprint(i), i) }),
			callers("one block", func(i int) func() error { return etcd.block("all", i) }))
	}
	got, err := interleave(b.rounds, 10*b.slice, list)
	if err != nil {
		return err
	}
	b.addRates(got, etcd != nil)
	b.addSlowest(got)
	return b.countSyncs(server, "64 clients: syncs for each durable call", 0.15, list[1])
}

// addRates adds a row for each of what 64 clients are compared with.
func (b *bench) addRates(got results, withEtcd bool) {
	than := func(goal, what, name string, limit float64) {
		b.add(row{
			goal: goal, what: what, limit: limit, least: true, got: got.rates("durable", name),
			note: fmt.Sprintf("%s against %s calls a second", number(got.rate("durable")), number(got.rate(name))),
		})
	}
	than("P4", "64 clients, durable, over the socket: rate against the same server from memory", "memory", 0.8)
	than("P4 G8", "the same, against no-op calls", "no-op", 0.5)
	than("G9", "the same, against the same server with a bbolt commit for each call", "one by one", 5)
	if withEtcd {
		than("P4 G11", "the same, against etcd's create-if-absent", "etcd", 2)
		than("G12", "the same, against etcd in Calico's shape, a block of 4.8 KB read, and replaced if it is still that: a block for each client", "block each", 4)
		than("G12", "the same, one block for all", "one block", 80)
	}
}

// addSlowest adds the rows of the calls of 64 clients that take longest.
func (b *bench) addSlowest(got results) {
	p99 := func(name string) spread { return got.of(func(r map[string]sample) float64 { return r[name].p99 }) }
	b.add(row{
		goal: "P6", what: "64 clients: the slowest hundredth against the median", limit: 4,
		got:  got.of(func(r map[string]sample) float64 { return r["durable"].p99 / r["durable"].p50 }),
		note: fmt.Sprintf("no-op calls have %s", number(got.of(func(r map[string]sample) float64 { return r["no-op"].p99 / r["no-op"].p50 }).median)),
	})
	b.add(row{
		goal: "G10", what: "64 clients: the slowest hundredth against that of no-op calls", limit: 2,
		got:  got.of(func(r map[string]sample) float64 { return r["durable"].p99 / r["no-op"].p99 }),
		note: fmt.Sprintf("%s against %s", duration(p99("durable").median), duration(p99("no-op").median)),
	})
}
