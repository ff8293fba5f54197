package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

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
	// The path was looked for, the rest is ours
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
