package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is one run.
type bench struct {
	ctx    context.Context
	dir    string // for databases and sockets; gone afterwards
	peers  string // where Debian packages are unpacked, or empty
	weave  bool   // build Weave's allocator, too
	rounds int
	slice  time.Duration
	table
}

// part is what is measured together, and the goals that it has rows for.
type part struct {
	goals string // and the names of peers
	run   func(*bench) error
}

func main() {
	do := run
	if len(os.Args) == 3 {
		if serve := selfServer(os.Args[1]); serve != nil {
			do = func() error { return serve(os.Args[2]) }
		}
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{}
	only := flag.String("goals", "", "regular expression of the goals to measure; default all but the slow ones")
	flag.StringVar(&b.peers, "peers", os.Getenv("RINGLET_BENCH_PEERS"), "directory in which the Debian packages of peers are unpacked")
	flag.BoolVar(&b.weave, "weave", false, "compare with Weave's allocator, too, of which the modules are fetched")
	flag.BoolVar(&b.short, "short", false, "one short round of each: shows that it runs, not how fast")
	flag.IntVar(&b.rounds, "rounds", 11, "rounds of each part")
	flag.DurationVar(&b.slice, "slice", 40*time.Millisecond, "how long each contender runs in a round; 10 times that where it waits for disks")
	profile := flag.String("profile", "", "measure nothing: write to this file what the compiler goes by when it builds ringlet")
	dir := flag.String("dir", "", "where databases are made, on the disk that is to be measured; default the current directory")
	flag.Parse()
	want, err := regexp.Compile("^(" + *only + ")$")
	if err != nil {
		return err
	}
	if b.short {
		b.rounds, b.slice = 1, 2*time.Millisecond
	}
	if *dir == "" {
		*dir = "."
	}
	where, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(where, "bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b.ctx = ctx
	if *profile != "" {
		return b.writeProfile(*profile)
	}
	wanted := slices.Concat(parts, slow)
	if *only != "" {
		wanted = slices.DeleteFunc(wanted, func(p part) bool { return !slices.ContainsFunc(strings.Fields(p.goals), want.MatchString) })
	} else if !b.short {
		wanted = parts
		for _, p := range slow {
			b.leaveOut("%s, which takes minutes, unless it is asked for: -goals %s", p.goals, p.goals)
		}
	}
	return b.measure(wanted)
}

// measure runs the parts, and prints the table.
func (b *bench) measure(wanted []part) error {
	before, begun := listen(), time.Now()
	for _, p := range wanted {
		fmt.Fprintf(os.Stderr, "%s …\n", p.goals)
		if err := p.run(b); err != nil {
			b.failed = append(b.failed, fmt.Sprintf("%s: %v", p.goals, err))
		}
		if b.ctx.Err() != nil {
			break // what there is, is shown
		}
	}
	n, err := listen().since(before).measureSync(b.dir)
	if err != nil {
		return err
	}
	b.print(os.Stdout, n, time.Since(begun))
	if len(b.failed) > 0 {
		return fmt.Errorf("%d parts failed", len(b.failed))
	}
	return nil
}

// sub returns a new directory in that of the run.
func (b *bench) sub(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}
