package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

// writeProfile writes what ringlet spends its processor time on to a file, by which the compiler then goes. Half of it
// is what the program did for clients of its socket, most of which is the way there and back; the other half is its core
// alone, with pools and rings of all kinds, as it would hardly count beside that.
func (b *bench) writeProfile(file string) error {
	if !b.short { // as many samples as tell a line that counts from one that does not
		b.rounds, b.slice = 7, 120*time.Millisecond
	}
	served, err := b.profileServed()
	if err != nil {
		return err
	}
	core, err := b.profileCore()
	if err != nil {
		return err
	}
	core.Scale(float64(weightOf(served)) / float64(weightOf(core)))
	all, err := profile.Merge([]*profile.Profile{strip(served), strip(core)})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := all.Write(&text); err != nil {
		return err
	}
	part := file + ".part" // so that no half of one breaks the next build
	if err := os.WriteFile(part, text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// profileServed profiles a process of ringlet with 64 clients at once, and with one.
func (b *bench) profileServed() (*profile.Profile, error) {
	dir, err := b.sub("profiled")
	if err != nil {
		return nil, err
	}
	bin, err := b.binary("ringlet-profiled", "..", "./plugin", "-tags", "profile")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "cpu")
	server, err := b.serveRinglet(bin, dir, "CPU_PROFILE="+file)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	list, err := engines(server.path, "profiled", many)
	if err != nil {
		return nil, err
	}
	long := 500 * b.slice
	for _, n := range []int{many, 1} {
		callers := clients("", n, func(i int) func() (time.Duration, error) { return timed(list[i].next) })
		if _, err := callers.run(long); err != nil {
			return nil, err
		}
	}
	if err := server.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return nil, err
	}
	var raw []byte
	if err := poll(b.ctx, func() (err error) { raw, err = os.ReadFile(file); return err }); err != nil {
		return nil, err
	}
	return profile.ParseData(raw)
}

// profileCore profiles ringlet's part of what the rows about its core measure.
func (b *bench) profileCore() (*profile.Profile, error) {
	var raw bytes.Buffer
	if err := pprof.StartCPUProfile(&raw); err != nil {
		return nil, err
	}
	var err error
	for _, rows := range []func(*bench) error{measurePair, measureFills, measureStart, measureRing, measureDecision, measureGrowth} {
		if err = rows(b); err != nil {
			break
		}
	}
	pprof.StopCPUProfile()
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseData(raw.Bytes())
	if err != nil {
		return nil, err
	}
	ours := p.Sample[:0]
	for _, s := range p.Sample {
		if callees(s); ofRinglet(s) {
			ours = append(ours, s)
		}
	}
	p.Sample = ours
	return p, nil
}

// callees leaves of a sample what this program called, and not how it did that.
func callees(s *profile.Sample) {
	own := slices.IndexFunc(s.Location, func(l *profile.Location) bool { return within("main.", l) })
	if own >= 0 {
		s.Location = s.Location[:own]
	}
}

// ofRinglet reports whether a sample was taken while a package of ringlet worked.
func ofRinglet(s *profile.Sample) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool { return within("github.com/ringlet/ringlet/", l) })
}

// within reports whether a place is in a package, or those below a path.
func within(path string, l *profile.Location) bool {
	return slices.ContainsFunc(l.Line, func(l profile.Line) bool { return strings.HasPrefix(l.Function.Name, path) })
}

// weightOf returns the processor time of a profile.
func weightOf(p *profile.Profile) (sum int64) {
	for _, s := range p.Sample {
		sum += s.Value[len(s.Value)-1]
	}
	return sum
}

// strip leaves of a profile what the compiler reads: which line of which function called which. What else there is tells
// of the machine on which it was made.
func strip(p *profile.Profile) *profile.Profile {
	for _, f := range p.Function {
		f.Filename, f.SystemName = "", f.Name
	}
	for _, l := range p.Location {
		l.Address, l.Mapping = 0, nil
	}
	p.Mapping, p.Comments, p.TimeNanos = nil, nil, 0
	for _, s := range p.Sample {
		s.Label, s.NumLabel, s.NumUnit = nil, nil, nil
	}
	return p
}
