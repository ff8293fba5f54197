package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// beat is one line of a command under a lock.
type beat struct {
	fence uint64
	who   string
	at    time.Time
}

// underLock writes a beat each 50 ms, so many times, to a file that all hosts share.
func underLock(file, who string, times int) []string {
	return []string{"sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "$RINGLET_FENCE %s $(date +%%s%%N)" >> %s; i=$((i+1)); sleep 0.05; done`, times, who, file)}
}

func beats(t *testing.T, file string) (out []beat) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var b beat
		var nanos int64
		if _, err := fmt.Sscan(string(line), &b.fence, &b.who, &nanos); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		b.at = time.Unix(0, nanos)
		out = append(out, b)
	}
	return out
}

// firstOf waits for the first beat of somebody.
func firstOf(t *testing.T, file, who string, limit time.Duration) (found beat) {
	t.Helper()
	Eventually(t, limit, who+" has the lock", func() bool {
		i := slices.IndexFunc(beats(t, file), func(b beat) bool { return b.who == who })
		if i >= 0 {
			found = beats(t, file)[i]
		}
		return i >= 0
	})
	return found
}

// lastOf returns the last beat of somebody.
func lastOf(t *testing.T, file, who string) (last beat) {
	t.Helper()
	for _, b := range beats(t, file) {
		if b.who == who {
			last = b
		}
	}
	return last
}

// holders returns who had the lock, in the order of their fences, and fails the test if two had one fence.
func holders(t *testing.T, file string) []beat {
	t.Helper()
	first := map[uint64]beat{}
	for _, b := range beats(t, file) {
		if f, known := first[b.fence]; known && f.who != b.who {
			t.Errorf("%s and %s have the fence %d", f.who, b.who, b.fence)
		} else if !known {
			first[b.fence] = b
		}
	}
	var out []beat
	for _, b := range first {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b beat) int { return int(a.fence) - int(b.fence) })
	for i := 1; i < len(out); i++ {
		if out[i].at.Before(out[i-1].at) {
			t.Errorf("%s has fence %d, and began before %s with %d", out[i].who, out[i].fence, out[i-1].who, out[i-1].fence)
		}
	}
	return out
}

// rising is what fences are: whoever gets the lock gets a higher one than all before.
var rising = porcupine.Model{
	Init:  func() any { return uint64(0) },
	Step:  func(state, _, output any) (bool, any) { return output.(uint64) > state.(uint64), output },
	Equal: func(a, b any) bool { return a == b },
}

// K4: commands on three hosts take one lock. None has it beside another, also where a host is cut off, a command is killed, or is
// frozen for a minute. The fences rise.
func TestClusterLocks(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	c.Install()
	c.AwaitReady(c.Engines...)
	ringlet, file := Built(t, "ringlet"), filepath.Join(t.TempDir(), "beats")
	var mu sync.Mutex
	var history []porcupine.Operation
	begun := time.Now()
	var work sync.WaitGroup
	for i, e := range c.Engines {
		for j := range 2 {
			work.Go(func() {
				for k := range 5 {
					who := fmt.Sprintf("%s-%d-%d", e.Name, j, k)
					asked := time.Since(begun)
					if out, err := e.TryRinglet(append([]string{"lock", "--wait", "2m", "job", "--"}, underLock(file, who, 4)...)...); err != nil {
						t.Errorf("%s: %v\n%s", who, err, out)
						return
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: 2*i + j, Call: asked.Nanoseconds(), Return: time.Since(begun).Nanoseconds(), Output: lastOf(t, file, who).fence})
					mu.Unlock()
				}
			})
		}
	}
	work.Wait()
	if t.Failed() {
		return
	}
	if got := porcupine.CheckOperations(rising, history); !got || len(history) != 30 {
		t.Errorf("the fences of %d holders do not rise", len(history))
	}
	noneBeside(t, file)
	fmt.Fprintf(t.Output(), "30 holders one after the other took %v\n", time.Since(begun).Round(time.Millisecond))

	a, b, last := c.Engines[0], c.Engines[1], c.Engines[2]
	start := func(e *Engine, who string) *process {
		t.Helper()
		p, err := e.spawn(t.Output(), ringlet, append([]string{"lock", "--wait", "2m", "job", "--"}, underLock(file, who, 1<<20)...)...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	next := func(lost time.Time, who string, least time.Duration) {
		t.Helper()
		took := firstOf(t, file, who, time.Minute).at.Sub(lost)
		if took < least || took > 40*time.Second {
			t.Errorf("%s got the lock %v after its holder was lost, want %v to 40s", who, took, least)
		}
		fmt.Fprintf(t.Output(), "%s got the lock %v after its holder was lost\n", who, took.Round(time.Millisecond))
	}

	// The host of the holder is cut off. The command ends before another one begins.
	cut := start(last, "cut-off")
	firstOf(t, file, "cut-off", time.Minute)
	c.Cut(last)
	lost := time.Now()
	heir := start(a, "heir")
	next(lost, "heir", 25*time.Second)
	Eventually(t, 10*time.Second, "the command on the host that is cut off has ended", func() bool { return !cut.running() })
	noneBeside(t, file)
	c.Heal(last)
	c.AwaitReady(c.Engines...)

	// The holder is killed. What it started ends with it.
	before := time.Now()
	_ = heir.signal("KILL")
	lost = time.Now()
	frozen := start(b, "frozen")
	next(before, "frozen", 25*time.Second)
	if again := lastOf(t, file, "heir"); again.at.Sub(lost) > time.Second {
		t.Errorf("the command of a holder that was killed went on for %v", again.at.Sub(lost))
	}

	// The holder is frozen for a minute. Another one gets the lock meanwhile, and it ends within a second of its thaw.
	var thawed time.Time // the holder; it goes on behind its command, which nobody can end until then
	stop := func(signal string) {
		t.Helper()
		pids := strings.Fields(b.Run("pgrep", "-P", frozen.pid))
		if len(pids) != 1 {
			t.Fatalf("the children of the holder are %v", pids)
		}
		if signal == "CONT" {
			b.Run("kill", "-"+signal, "--", "-"+pids[0])
		}
		thawed = time.Now()
		if err := frozen.signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal == "STOP" {
			b.Run("kill", "-"+signal, "--", "-"+pids[0])
		}
	}
	lost = time.Now()
	stop("STOP")
	after := start(a, "after")
	next(lost, "after", 25*time.Second)
	time.Sleep(time.Until(lost.Add(time.Minute)))
	stop("CONT")
	Eventually(t, 3*time.Second, "the frozen command has ended", func() bool { return !frozen.running() })
	if again := lastOf(t, file, "frozen"); again.at.Sub(thawed) > time.Second {
		t.Errorf("the command went on for %v behind its thaw", again.at.Sub(thawed))
	}
	if f, g := lastOf(t, file, "frozen").fence, lastOf(t, file, "after").fence; f >= g {
		t.Errorf("the fence of the frozen holder is %d, and that of the next one %d", f, g)
	}
	_ = after.signal("TERM")
	Eventually(t, 20*time.Second, "the lock is free", func() bool { return a.Ringlet("lock", "--wait", "20s", "job", "--", "echo", "free") == "free" })
	for _, h := range holders(t, file) {
		fmt.Fprintln(t.Output(), strconv.FormatUint(h.fence, 10), h.who)
	}
	if shown := a.Ringlet("events", "-n", "5"); !strings.Contains(shown, "lock taken: job by") {
		t.Errorf("events: %s", shown)
	}
}

// noneBeside fails the test if somebody went on under the lock when another one had begun.
func noneBeside(t *testing.T, file string) {
	t.Helper()
	all := beats(t, file)
	highest := beat{}
	for _, b := range all {
		if b.fence < highest.fence {
			t.Errorf("%s went on with fence %d when %s had begun with %d", b.who, b.fence, highest.who, highest.fence)
		}
		if b.fence > highest.fence {
			highest = b
		}
	}
}
