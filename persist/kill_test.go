package persist

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A process that commits is killed at a random point, again and again. This shows that the order of writes, bbolt's and
// the log's, and our acknowledgement agree; it cannot see a missing sync, as the kernel keeps what was written.
func TestKill(t *testing.T) {
	const kills = 30
	rnd := testRand(t)
	path := dbPath(t)
	h := newHistory()
	var acked uint64
	for range kills {
		cmd, out := startPart(t, partWrite, path, modeSync)
		acked = readAcks(t, out, acked, rnd.IntN(60))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() { // acknowledged before the kill
			acked = parseAck(t, out.Text())
		}
		cmd.Wait()
		if err := h.checkDatabase(path, acked, acked+1); err != nil {
			t.Fatalf("after the kill at step %d: %v", acked, err)
		}
	}
	t.Logf("%d kills, %d commits", kills, acked)
}

type lines interface {
	Scan() bool
	Text() string
}

// readAcks reads the line of the start and n more, and returns the last number.
func readAcks(t *testing.T, out lines, acked uint64, n int) uint64 {
	t.Helper()
	for range n + 1 {
		if !out.Scan() {
			t.Fatalf("the writer ended by itself after step %d", acked)
		}
		acked = parseAck(t, out.Text())
	}
	return acked
}

func parseAck(t *testing.T, line string) (n uint64) {
	t.Helper()
	if _, err := fmt.Sscanf(line, "acknowledged %d", &n); err != nil {
		t.Fatalf("the writer said %q: %v", line, err)
	}
	return n
}

// strace runs a part of this program under strace and returns the output of both.
func strace(t *testing.T, options []string, part ...string) (stdout, trace string) {
	t.Helper()
	exe, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace to see and to fail system calls")
	}
	args := append([]string{"-f", "-qq"}, options...)
	cmd := exec.CommandContext(testContext(t), exe, append(append(args, testProgram(t)), part...)...)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		if strings.Contains(errOut.String(), "ptrace") {
			t.Skipf("strace is not permitted here: %s", errOut.String())
		}
		t.Fatalf("%v\n%s%s", err, out.String(), errOut.String())
	}
	return out.String(), errOut.String()
}

// A start writes the last meta page once more, and syncs it. Every transaction of the database is: write pages, sync, write a meta page, sync. The tests of bbolt's writes build on
// that.
func TestSyncOrder(t *testing.T) {
	const steps = 20
	calls := tracedCalls(t, madeDatabase(t, 0), modeNoLog, steps)
	if want := fmt.Sprintf("^md(p+dmd){%d}$", steps); !regexp.MustCompile(want).MatchString(calls) {
		t.Errorf("got calls %s, want %s", calls, want)
	}
}

// The log is made, and comes into use with a transaction. From then on every commit is: write a record, sync. A segment
// that is full is brought to the database beside that, and the rest at the end.
func TestLogSyncOrder(t *testing.T) {
	const steps = 40
	all := tracedCalls(t, madeDatabase(t, 0), modeSync, steps)
	rest, begins := strings.CutPrefix(all, regexp.MustCompile("^mdw+sp+dmd").FindString(all))
	if !begins || !strings.HasSuffix(rest, "dmd") {
		t.Errorf("got calls %s, want the log made, and the database in use, first, and a transaction at the end", all)
	}
	database := regexp.MustCompile("[ws]").ReplaceAllString(rest, "")
	if !regexp.MustCompile("^(p+dmd){2,}$").MatchString(database) {
		t.Errorf("got calls of the database %s, want whole transactions", database)
	}
	log := regexp.MustCompile("[pmd]").ReplaceAllString(rest, "")
	direct := strings.Count(database, "m") // turns, the end, and batches without room in the log
	if !regexp.MustCompile("^(ws)+$").MatchString(log) || len(log)/2 > steps-1 || len(log)/2 < steps-1-direct {
		t.Errorf("got calls of the log %s, want a write and a sync for each of %d batches", log, steps-1)
	}
}

// tracedCalls has a process commit steps and returns a letter for each call in order: p(ages), m(eta) and d(one, their
// sync) of the database, w(rite) and s(ync) of the log.
func tracedCalls(t *testing.T, path, mode string, steps int) string {
	t.Helper()
	out, trace := strace(t, []string{"-y", "-e", "trace=pwrite64,fdatasync,fsync"}, partFail, path, mode, fmt.Sprint(steps))
	if want := fmt.Sprintf("passed %d\n", steps); out != want {
		t.Fatalf("got %q, want %q", out, want)
	}
	var calls strings.Builder
	call := regexp.MustCompile(`^(pwrite64|fdatasync|fsync)\(\d+<([^>]*)>(?:, .*, (\d+))?\)\s+= \d+$`)
	for line := range wholeCalls(trace) {
		m := call.FindStringSubmatch(line)
		if m != nil {
			m[2] = strings.TrimSuffix(m[2], newSuffix) // while it is made
		}
		switch {
		case m == nil:
			t.Fatalf("strace said %q", line)
		case m[2] == walPath(path) && m[3] == "":
			calls.WriteByte('s')
		case m[2] == walPath(path):
			calls.WriteByte('w')
		case m[1] == "fsync": // of a name, or of a file that has grown
		case m[3] == "":
			calls.WriteByte('d')
		case m[3] == "0" || m[3] == fmt.Sprint(os.Getpagesize()) || m[3] == fmt.Sprint(metaStart) || m[3] == fmt.Sprint(os.Getpagesize()+metaStart):
			calls.WriteByte('m')
		default:
			calls.WriteByte('p')
		}
	}
	return calls.String()
}

// wholeCalls yields the calls in strace's output in the order of their ends. It joins the two lines of a call during
// which something else happened in the process, and leaves out signals.
func wholeCalls(trace string) iter.Seq[string] {
	number := regexp.MustCompile(`^\[pid +(\d+)\] `)
	resumed := regexp.MustCompile(`^<\.\.\. \w+ resumed>`)
	return func(yield func(string) bool) {
		begun := map[string]string{}
		for line := range strings.Lines(trace) {
			line = strings.TrimSuffix(line, "\n")
			pid := ""
			if m := number.FindStringSubmatch(line); m != nil {
				pid, line = m[1], line[len(m[0]):]
			}
			if first, unfinished := strings.CutSuffix(line, " <unfinished ...>"); unfinished {
				begun[pid] = first
				continue
			}
			if m := resumed.FindString(line); m != "" {
				line = begun[pid] + line[len(m):]
			}
			if !strings.HasPrefix(line, "---") && !yield(line) {
				return
			}
		}
	}
}

// Each sync fails in turn, and each write for want of space: of the start, of commits, of the log that is brought to the
// database, and of the end. Only while the log is made that does no harm, and at the end, when it is still there.
func TestEachSystemCallFails(t *testing.T) {
	const first, steps = 10, 8
	h := newHistory()
	for _, inject := range []struct{ call, errno, says string }{
		{"fdatasync", "EIO", "input/output error"},
		{"fsync", "EIO", "input/output error"},
		{"pwrite64", "ENOSPC", "no space left on device"},
	} {
		t.Run(inject.call, func(t *testing.T) {
			failed := 0
			for n := 1; ; n++ {
				path := madeDatabase(t, first)
				rule := fmt.Sprintf("inject=%s:error=%s:when=%d", inject.call, inject.errno, n)
				out, trace := strace(t, []string{"-e", "trace=" + inject.call, "-e", rule}, partFail, path, modeSync, fmt.Sprint(steps))
				var done uint64
				if strings.HasPrefix(out, "passed") {
					if !strings.Contains(trace, "INJECTED") {
						if n == 1 || failed == 0 && inject.call != "fsync" {
							t.Error("nothing failed")
						}
						t.Logf("%d calls, %d of them with an error of the start or a commit", n-1, failed)
						return
					}
					if err := h.checkDatabase(path, first+steps, first+steps); err != nil {
						t.Errorf("call %d: %v", n, err)
					}
					continue
				}
				failed++
				if strings.HasPrefix(out, "not opened") {
					if !strings.Contains(out, inject.says) {
						t.Errorf("call %d: the program said %q, want %q", n, out, inject.says)
					}
					if err := h.checkDatabase(path, first, first); err != nil {
						t.Errorf("call %d: %v", n, err)
					}
					continue
				}
				var commit, load bool
				if _, err := fmt.Sscanf(out, "failed %d %t %t", &done, &commit, &load); err != nil {
					t.Fatalf("call %d: the program said %q: %v", n, out, err)
				}
				if !commit || !load || !strings.Contains(out, inject.says) {
					t.Errorf("call %d: the program said %q, want %q and then ErrFailed twice", n, out, inject.says)
				}
				if err := h.checkDatabase(path, done, done+1); err != nil {
					t.Errorf("call %d: %v", n, err)
				}
			}
		})
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	path := madeDatabase(t, 2)
	cmd, out := startPart(t, partHold, path)
	if !out.Scan() {
		t.Fatal("the holder did not open the database")
	}
	cfg := testConfig(path)
	cfg.LockTimeout = 1 // nanosecond
	_, openErr := Open(cfg)
	_, damage, verifiedErr := OpenOrReplace(cfg)
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	_, asideErr := setAside(path, cfg.LockTimeout, file)
	for name, err := range map[string]error{"Open": openErr, "OpenOrReplace": verifiedErr, "SetAside": asideErr} {
		if !errors.Is(err, ErrLocked) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrLocked", name, err)
			continue
		}
		if want := fmt.Sprintf("process %d (%s)", cmd.Process.Pid, testProgram(t)); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not name %s", name, err, want)
		}
	}
	if damage != nil {
		t.Errorf("a locked database was taken for damaged: %v", damage)
	}
	if names, _ := filepath.Glob(path + "*"); len(names) != 1 {
		t.Errorf("got files %v, want the database alone", names)
	}
	own := mustOpen(t, testConfig(dbPath(t)))
	cfg.Path = own.path
	if _, err := Open(cfg); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "this process itself") {
		t.Errorf("got %v, want ErrLocked by this process", err)
	}
}

func TestLockHolder(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  WRITE 11 08:02:77 0 EOF
2: FLOCK  ADVISORY  WRITE 12 08:02:78 0 EOF
3: FLOCK  ADVISORY  WRITE 13 08:03:77 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 08:02:77 0 EOF
4: FLOCK  ADVISORY  WRITE 15 1f:02:77 0 EOF
not a line of this file
5: FLOCK  ADVISORY  WRITE many 1f:02:77 0 EOF
`
	for _, tt := range []struct {
		major, minor uint32
		inode        uint64
		want         int
	}{
		{0x08, 2, 78, 12},
		{0x1f, 2, 77, 15},
		{0x09, 1, 78, 12}, // same inode, other device
		{0x08, 2, 79, 0},
	} {
		if got := lockHolder(strings.NewReader(locks), tt.major, tt.minor, tt.inode); got != tt.want {
			t.Errorf("lockHolder(%x, %x, %d): got %d, want %d", tt.major, tt.minor, tt.inode, got, tt.want)
		}
	}
}
