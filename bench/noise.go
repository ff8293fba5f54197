package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// noise is what the machine did while something was measured.
type noise struct {
	total, idle, steal float64 // of all processors, in ticks
	own                float64 // of this process and its children, in seconds
	load               string
	sync               spread // fdatasync of 4 KB, in nanoseconds
	p99                float64
}

// listen reads what the machine has done so far.
func listen() (n noise) {
	if f, err := os.Open("/proc/stat"); err == nil {
		defer f.Close()
		lines := bufio.NewScanner(f)
		if lines.Scan() {
			var user, nice, system, idle, wait, irq, soft, steal float64
			_, _ = fmt.Sscanf(lines.Text(), "cpu %f %f %f %f %f %f %f %f", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal)
			n.total, n.idle, n.steal = user+nice+system+idle+wait+irq+soft+steal, idle+wait, steal
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			n.own += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		}
	}
	return n
}

// since returns what happened since an earlier reading.
func (n noise) since(before noise) noise {
	n.total -= before.total
	n.idle -= before.idle
	n.steal -= before.steal
	n.own -= before.own
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		n.load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return n
}

// report describes it in a few words.
func (n noise) report(took time.Duration) string {
	busy := n.total - n.idle
	others := max(busy-n.own*ticks, 0)
	return fmt.Sprintf("%s, %s, %d processors; %v; load %s, others had %.0f %% of the processors, the hypervisor %.1f %%; "+
		"an fdatasync of 4 KB takes %s [%s..%s], p99 %s.",
		runtime.Version(), cpu(), runtime.NumCPU(), took.Round(time.Second), n.load, 100*others/max(n.total, 1), 100*n.steal/max(n.total, 1),
		duration(n.sync.median), duration(n.sync.q1), duration(n.sync.q3), duration(n.p99))
}

// ticks is how many of /proc/stat's units a second has (USER_HZ).
const ticks = 100

// cpu returns what the processor calls itself.
func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// measureSync measures how long the disk under dir takes to make 4 KB durable that it has room for already.
func (n noise) measureSync(dir string) (noise, error) {
	write, closeFile, err := syncer(filepath.Join(dir, "sync"))
	if err != nil {
		return n, err
	}
	defer closeFile()
	times := make([]float64, 200)
	for i := range times {
		begun := time.Now()
		if err := write(); err != nil {
			return n, err
		}
		times[i] = float64(time.Since(begun))
	}
	n.sync = spreadOf(times)
	slices.Sort(times)
	n.p99 = times[len(times)*99/100]
	return n, nil
}

// syncer returns a function that overwrites 4 KB of a file and syncs it.
func syncer(path string) (write func() error, closeFile func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	block := make([]byte, 4096)
	if _, err := f.Write(block); err != nil {
		return nil, nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, nil, err
	}
	return func() error {
		if _, err := f.WriteAt(block, 0); err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	}, func() { f.Close() }, nil
}
