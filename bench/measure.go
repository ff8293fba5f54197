package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sample is what one contender did in one round. Times are in nanoseconds.
type sample struct {
	p50, p99 float64 // of one operation; p50 is the mean where a slice is timed as a whole
	rate     float64 // operations a second
	batch    float64 // how many of them went together, where that is counted
	busy     float64 // processor time of this process for each, likewise
}

// contender is something that is measured. run takes about as long as it is told.
type contender struct {
	name string
	run  func(slice time.Duration) (sample, error)
}

// results holds a sample for each contender, by name, of each round.
type results []map[string]sample

// interleave runs the contenders in turns, in an order shuffled in each round. The first round warms up and does not
// count.
func interleave(rounds int, slice time.Duration, list []contender) (results, error) {
	order := slices.Clone(list)
	var out results
	for round := range rounds + 1 {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		got := map[string]sample{}
		for _, c := range order {
			runtime.GC()
			s, err := c.run(slice)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			got[c.name] = s
		}
		if round > 0 {
			out = append(out, got)
		}
	}
	return out, nil
}

// spread is the median of some figures with the quartiles.
type spread struct{ q1, median, q3 float64 }

func spreadOf(figures []float64) spread {
	slices.Sort(figures)
	at := func(part float64) float64 {
		i := part * float64(len(figures)-1)
		low := math.Floor(i)
		high := min(int(low)+1, len(figures)-1)
		return figures[int(low)] + (i-low)*(figures[high]-figures[int(low)])
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}

// of returns the spread of what f makes of each round.
func (r results) of(f func(round map[string]sample) float64) spread {
	figures := make([]float64, len(r))
	for i, round := range r {
		figures[i] = f(round)
	}
	return spreadOf(figures)
}

// p50 returns the spread of a contender's own times.
func (r results) p50(name string) spread {
	return r.of(func(round map[string]sample) float64 { return round[name].p50 })
}

// times returns how much of the floor's time the subject takes.
func (r results) times(subject, floor string) spread {
	return r.of(func(round map[string]sample) float64 { return round[subject].p50 / round[floor].p50 })
}

// rates returns how much of the other's rate the subject reaches.
func (r results) rates(subject, other string) spread {
	return r.of(func(round map[string]sample) float64 { return round[subject].rate / round[other].rate })
}

// threadTime returns the processor time that this thread has used.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // the clock is there since Linux 2.6
	}
	return time.Duration(ts.Nano())
}

// computing returns a contender that is measured in processor time. do does n operations.
func computing(name string, do func(n int) error) contender {
	n := 1
	return contender{name, func(slice time.Duration) (sample, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			begun := threadTime()
			if err := do(n); err != nil {
				return sample{}, err
			}
			took := threadTime() - begun
			if took >= slice/2 {
				each := float64(took) / float64(n)
				n = max(int(float64(slice)/each), 1)
				return sample{p50: each, rate: 1e9 / each}, nil
			}
			n *= 2
		}
	}}
}

// repeated does something n times.
func repeated(f func() error) func(n int) error {
	return func(n int) error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

// rate returns the median rate of a contender.
func (r results) rate(name string) float64 {
	return r.of(func(round map[string]sample) float64 { return round[name].rate }).median
}

// once times one call for each slice.
func once(name string, f func() error) contender { return told(name, timed(f)) }

// told has one call for each slice tell how much of its time counts.
func told(name string, f func() (time.Duration, error)) contender {
	return contender{name, func(time.Duration) (sample, error) {
		took, err := f()
		return sampleOf(float64(took)), err
	}}
}

// working takes the processor time of one call, garbage collection included: what it reads is in memory.
func working(name string, f func() error) contender { return told(name, worked(f)) }

// worked returns a call that tells the processor time of f.
func worked(f func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		begun := listen().own
		err := f()
		return time.Duration((listen().own - begun) * float64(time.Second)), err
	}
}

// sampleOf returns what one call that took so long says.
func sampleOf(took float64) sample { return sample{p50: took, p99: took, rate: 1e9 / took} }
