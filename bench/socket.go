package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	return b.countSyncs(server, "1 client: syncs for each durable call", 2, oneClient("allocation", e.allocation))
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
	callers := func(name, socket string) (contender, error) {
		e, err := engines(socket, name, many)
		return clients(name, many, func(i int) func() (time.Duration, error) { return timed(e[i].next) }), err
	}
	durable, err := callers("durable", server.path)
	if err != nil {
		return err
	}
	memory, err := callers("memory", fromMemory.path)
	if err != nil {
		return err
	}
	list := []contender{durable, memory}
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
	return b.countSyncs(server, "64 clients: syncs for each durable call", 0.15, durable)
}

// countSyncs counts the syncs of a server, its log's and its database's, while clients call it: G7.
func (b *bench) countSyncs(server *process, what string, limit float64, callers contender) error {
	strace := b.find("strace", "usr/bin")
	if strace == "" {
		b.leaveOut("G7: strace, which is not installed")
		return nil
	}
	admin := unixDialer(filepath.Join(filepath.Dir(server.path), adminSocket))
	before, err := scrape(b.ctx, admin)
	if err != nil {
		return err
	}
	syncs, err := b.traceSyncs(strace, server.cmd.Process.Pid, func() error {
		_, err := callers.run(20 * b.slice)
		return err
	})
	if errors.Is(err, errUntraced) {
		b.leaveOut("G7: strace, which is not permitted here")
		return nil
	}
	if err != nil {
		return err
	}
	after, err := scrape(b.ctx, admin)
	if err != nil {
		return err
	}
	const count, sum = "ringlet_commit_batch_size_count", "ringlet_commit_batch_size_sum"
	calls := after[sum] - before[sum]
	each := syncs / calls
	b.add(row{
		goal: "G7", what: what + ", counted", limit: limit, unit: " ", got: spread{each, each, each},
		note: fmt.Sprintf("%.0f syncs in %.0f commits for %.0f calls", syncs, after[count]-before[count], calls),
	})
	return nil
}

// errUntraced is returned where a process may not be looked at.
var errUntraced = errors.New("strace ended before it began")

// traceSyncs returns how many syncs a process makes while work is done. Errors: [errUntraced], and those of work.
func (b *bench) traceSyncs(strace string, pid int, work func() error) (float64, error) {
	summary := filepath.Join(b.dir, "syncs")
	//nolint:gosec // the path was looked for, the rest is ours
	cmd := exec.CommandContext(b.ctx, strace, "-f", "-qq", "-c", "-e", "trace=fdatasync,fsync", "-o", summary, "-p", strconv.Itoa(pid))
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	traced := func() error {
		if len(ended) > 0 {
			return nil // it may not look at the process
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, thread := range threads {
			status, gone := os.ReadFile(thread)
			if gone == nil && strings.Contains(string(status), "TracerPid:\t0\n") {
				err = errors.New("strace does not look at all threads yet")
			}
		}
		return err
	}
	err := poll(b.ctx, traced)
	if err == nil && len(ended) > 0 {
		return 0, errUntraced
	}
	if err == nil {
		err = work()
	}
	_ = cmd.Process.Signal(os.Interrupt)
	<-ended // by the signal
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(summary)
	if err != nil {
		return 0, err
	}
	syncs := 0.0
	for line := range strings.Lines(string(text)) {
		field := strings.Fields(line) // % time, seconds, µs a call, calls, perhaps errors, the call's name
		if n := len(field); n < 5 || field[n-1] != "fdatasync" && field[n-1] != "fsync" {
			continue
		}
		calls, err := strconv.ParseFloat(field[3], 64)
		if err != nil {
			return 0, fmt.Errorf("strace said %q: %w", line, err)
		}
		syncs += calls
	}
	return syncs, nil
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
