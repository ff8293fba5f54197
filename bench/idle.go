package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// crowd is how many peers P13 has: one process of ringlet, and the others together in this one, each with its own core
// and its own network, and a database that keeps nothing.
const crowd = 100

// measureIdle measures a peer with which nobody does anything, in a large cluster: P13. Meanwhile two processes that are
// alone come to rest, one with many addresses held, one with none: G19.
func measureIdle(b *bench) error {
	peers, settle, windows, window := crowd, 30*time.Second, 9, 10*time.Second
	// That so many have come at once rides on their probes for two minutes more: ten times what they send afterwards. That
	// each compares all that it knows with another one, every six minutes, mostly falls behind the windows.
	alone := 3 * time.Minute
	held := 100_000
	if b.short {
		peers, settle, windows, window = 4, 0, 1, time.Second
		alone, held = 0, 1_000
	}
	c, err := b.newCluster()
	if err != nil {
		return err
	}
	defer c.stop()
	for range peers - 1 {
		if err := c.add(&memory{}); err != nil {
			return err
		}
	}
	server, err := b.startLast(c, peers)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := c.await(peers); err != nil {
		return err
	}
	met := time.Now()
	var beside [2]*process
	for i, n := range []int{0, held} {
		_, p, err := b.startHeld(fmt.Sprintf("idle-%d", n), n)
		if err != nil {
			return err
		}
		defer p.stop()
		beside[i] = p
	}
	if err := b.rest(server, settle); err != nil {
		return err
	}
	if err := b.wait(time.Until(met.Add(alone))); err != nil {
		return err
	}
	share, sent, inStreams, err := b.watchIdle(c, server, windows, window)
	if err != nil {
		return err
	}
	b.addIdle(peers, server, share, sent, inStreams)
	_, none := beside[0].memory()
	_, many := beside[1].memory()
	ratio := many / none
	b.add(row{
		goal: "G19", what: fmt.Sprintf("anonymous memory of a process with %d held, at rest, against one with none", held), limit: 3,
		got: spread{ratio, ratio, ratio}, note: fmt.Sprintf("%s MB against %s MB, at least %s after their start", number(many), number(none), settle+time.Duration(windows)*window),
	})
	return nil
}

// startLast starts a process as the last of so many peers of a cluster.
func (b *bench) startLast(c *cluster, peers int) (*process, error) {
	dir, err := b.sub("idle")
	if err != nil {
		return nil, err
	}
	self := c.at(peers - 1).String()
	return b.startRinglet(dir, "RINGLET_KEY="+base64.StdEncoding.EncodeToString(c.key), "RINGLET_BIND="+self,
		"RINGLET_ADVERTISE="+self, "RINGLET_JOIN="+strings.Join(c.seeds(peers-1), ","))
}

// addIdle adds the rows of P13.
func (b *bench) addIdle(peers int, server *process, share []float64, sent, inStreams float64) {
	resident, anonymous := server.memory()
	what := fmt.Sprintf("an idle peer of %d: ", peers)
	b.add(row{goal: "P13", what: what + "share of a processor that its process takes", limit: 0.2, unit: " %", got: spreadOf(share)})
	b.add(row{
		goal: "P13", what: what + "bytes a second that a peer sends, the mean of those in this process", limit: 300, unit: " B", got: spread{sent, sent, sent},
		note: fmt.Sprintf("what packets and streams carry, encrypted, without their headers; %s B of it in streams", number(inStreams)),
	})
	b.add(row{
		goal: "P13", what: what + "resident memory of its process", limit: 40, unit: " MB", got: spread{resident, resident, resident},
		note: fmt.Sprintf("%s MB of it are its own, the rest is of files", number(anonymous)),
	})
}

// watchIdle returns the share of a processor that the process takes in each window, in percent, and how many bytes a second a peer of
// this process sends: in all, and in streams.
func (b *bench) watchIdle(c *cluster, server *process, windows int, window time.Duration) (
	share []float64, sent, inStreams float64, err error,
) {
	packets, streams := c.traffic.packets.Load(), c.traffic.streams.Load()
	var took float64
	for range windows {
		used, begun := server.used(), time.Now()
		if err := b.wait(window); err != nil {
			return nil, 0, 0, err
		}
		passed := time.Since(begun).Seconds()
		share = append(share, 100*(server.used()-used).Seconds()/passed)
		took += passed
	}
	took *= float64(len(c.members))
	inStreams = float64(c.traffic.streams.Load()-streams) / took
	sent = float64(c.traffic.packets.Load()-packets)/took + inStreams
	return share, sent, inStreams, nil
}

// rest waits until a process has written nothing for so long: what its start brought has settled, and it has noted who is
// there.
func (b *bench) rest(p *process, quiet time.Duration) error {
	end := time.Now().Add(10 * quiet)
	for since, written := time.Now(), p.written(); time.Since(since) < quiet; {
		if time.Now().After(end) {
			return errors.New("an idle process does not stop writing")
		}
		if err := b.wait(time.Second); err != nil {
			return err
		}
		if now := p.written(); now != written {
			since, written = time.Now(), now
		}
	}
	return nil
}

// wait waits, unless the run ends.
func (b *bench) wait(d time.Duration) error {
	select {
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// used returns the processor time that a process has used so far: that of all its threads, of which a Go program ends
// none.
func (p *process) used() (total time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid)) // the pattern is right
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var ran time.Duration
		_, _ = fmt.Fscan(bytes.NewReader(text), &ran)
		total += ran
	}
	return total
}

// written returns how many bytes a process has had written to disks.
func (p *process) written() (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.cmd.Process.Pid)) // it runs
	if _, after, found := strings.Cut(string(text), "\nwrite_bytes: "); found {
		_, _ = fmt.Sscan(after, &bytes)
	}
	return bytes
}

// memory returns the resident memory of a process in MB, and how much of it is no file's.
func (p *process) memory() (resident, anonymous float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)) // it runs
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %f", &resident)
		_, _ = fmt.Sscanf(lines.Text(), "RssAnon: %f", &anonymous)
	}
	return resident * 1024 / 1e6, anonymous * 1024 / 1e6
}
