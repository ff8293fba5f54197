package main

import (
	"sync"
	"time"
)

// oneClient times f again and again, for as long as it is told.
func oneClient(name string, f func() (time.Duration, error)) contender {
	return clients(name, 1, func(int) func() (time.Duration, error) { return f })
}

// clients has many clients at once time what they do again and again. what returns what a client does, which says how
// much of its time counts.
func clients(name string, n int, what func(client int) func() (time.Duration, error)) contender {
	list := []func() (time.Duration, error){}
	for i := range n {
		list = append(list, what(i))
	}
	return contender{name, func(slice time.Duration) (sample, error) {
		var mu sync.Mutex
		var all []float64
		var failed error
		var wg sync.WaitGroup
		begun := time.Now()
		for _, f := range list {
			wg.Go(func() {
				var times []float64
				for time.Since(begun) < slice {
					took, err := f()
					if err != nil {
						mu.Lock()
						failed = err
						mu.Unlock()
						return
					}
					times = append(times, float64(took))
				}
				mu.Lock()
				all = append(all, times...)
				mu.Unlock()
			})
		}
		wg.Wait()
		took := time.Since(begun)
		if failed != nil || len(all) == 0 {
			return sample{}, failed
		}
		s := spreadOf(all) // sorted now
		return sample{p50: s.median, p99: all[len(all)*99/100], rate: float64(len(all)) / took.Seconds()}, nil
	}}
}

// timed turns a call into one that is timed.
func timed(f func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		begun := time.Now()
		err := f()
		return time.Since(begun), err
	}
}

// firstOf times the first of two calls in turn: what the one takes the other gives back, which does not count.
func firstOf(next func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		took, err := timed(next)()
		if err != nil {
			return 0, err
		}
		return took, next()
	}
}
