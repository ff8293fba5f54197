package persist

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/durable"
)

// seedFlag makes a failed random test run again: each prints the seed that it used.
var seedFlag = flag.Uint64("seed", 0, "seed of the random tests, 0 for a new one")

// The test program plays several parts in processes of its own, chosen by its first argument.
const (
	partWrite = "part-write" // PATH MODE: commit the workload, print each acknowledged step
	partHold  = "part-hold"  // PATH: open, print a line, keep it open until standard input ends
	partCheck = "part-check" // PATH: check, and print what was found
	partFail  = "part-fail"  // PATH MODE N: commit until it fails, then report what the store says

	partReplace = "part-replace" // PATH: replace a file again and again, print a line for each time

	partSupersede = "part-supersede" // PATH: commit, print a line, supersede the database at SIGUSR1, print a line
)

// Modes of these parts.
const (
	modeSync   = "sync"
	modeNoSync = "nosync" // without any sync
	modeNoLog  = "nolog"  // without a log: each batch is a transaction of the database
)

func modeConfig(path, mode string) Config {
	cfg := testConfig(path)
	cfg.noSync = mode == modeNoSync
	if mode == modeNoLog {
		cfg.segment = -1
	}
	return cfg
}

func TestMain(m *testing.M) {
	// For child processes with the race detector: no sleep of a second before the exit.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
		exitOn(err)
	}
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case partCheck:
			exitOn(runCheck(args[0]))
		case partWrite:
			exitOn(runWriter(args[0], args[1]))
		case partHold:
			exitOn(runHolder(args[0]))
		case partFail:
			exitOn(runFailing(args[0], args[1], args[2]))
		case partReplace:
			exitOn(runReplacing(args[0]))
		case partSupersede:
			exitOn(runSuperseding(args[0]))
		}
	}
	os.Exit(m.Run())
}

// orShort returns n, and with -short the second number: what runs in one goroutine need not be tried as often under
// the race detector.
func orShort(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// testSegment is small: one takes some ten batches of the workload, and the longest have no room in it.
const testSegment = 16 << 10

func testConfig(path string) Config {
	return Config{Path: path, Schema: 1, Logger: slog.New(slog.DiscardHandler), awaitWAL: true, segment: testSegment}
}

// hastyConfig is for tests that neither lose power nor look at syncs.
func hastyConfig(path string) Config {
	cfg := testConfig(path)
	cfg.noSync = true
	return cfg
}

// runWriter goes on with the workload where the database is, until it is killed.
func runWriter(path, mode string) error {
	s, err := Open(modeConfig(path, mode))
	if err != nil {
		return err
	}
	n, err := lastStep(s)
	if err != nil {
		return err
	}
	fmt.Println("acknowledged", n)
	for n++; ; n++ {
		if err := commitStep(s, n); err != nil {
			return err
		}
		fmt.Println("acknowledged", n)
	}
}

func runHolder(path string) error {
	s, err := Open(testConfig(path))
	if err != nil {
		return err
	}
	fmt.Println("open")
	bufio.NewReader(os.Stdin).ReadByte()
	return s.Close()
}

func runCheck(path string) error {
	if err := CheckFile(path); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("intact")
	}
	return nil
}

const replacements = 3

// replaced is the content of a file that was replaced n times, of several sectors; 0: there was none.
func replaced(n int) string { return strings.Repeat(strconv.Itoa(n), n*sector) }

func runReplacing(path string) error {
	for i := range replacements {
		if err := durable.Replace(path, []byte(replaced(i+1))); err != nil {
			return err
		}
		fmt.Println("replaced")
	}
	return nil
}

func runFailing(path, mode, steps string) error {
	s, err := Open(modeConfig(path, mode))
	if err != nil {
		fmt.Println("not opened:", err)
		return nil
	}
	n, err := lastStep(s)
	if err != nil {
		return err
	}
	limit, err := strconv.ParseUint(steps, 10, 64)
	if err != nil {
		return err
	}
	for limit += n; n < limit; n++ {
		if err := commitStep(s, n+1); err != nil {
			if errors.Is(err, ErrFailed) {
				return fmt.Errorf("the first failure is ErrFailed already: %w", err)
			}
			again := commitStep(s, n+1)
			load := s.Load(func(string, []byte, []byte) error { return nil })
			fmt.Printf("failed %d %t %t %v\n", n, errors.Is(again, ErrFailed), errors.Is(load, ErrFailed), err)
			if err := s.Close(); err != nil { // of a checkpoint that failed, too
				fmt.Println("close:", err)
			}
			return nil
		}
	}
	fmt.Println("passed", n)
	if err := s.Close(); err != nil {
		fmt.Println("close:", err)
	}
	return nil
}

func testProgram(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// startPart starts this program in one of its parts. The process is gone when the test ends.
func startPart(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(testProgram(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // open until the process is waited for
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() // fails when it is gone already
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s ended: %.4000s", args[0], stderr.String()) // some die of a power cut and print much
		}
	})
	return cmd, bufio.NewScanner(out)
}

func dbPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "ring.db")
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func testRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run again with -seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// testContext ends early enough for the test to say what hung.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
