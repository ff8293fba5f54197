package events

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/ipam"
)

// TestWatch looks at the problems of a status as they change, and seldom while
// nothing happens, whatever is wrong all the time.
func TestWatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := NewFeed(nil, new(contain.Edge))
		s.Begin(ipam.Identity{Boot: 1})
		heard := s.log.Read(ID{})
		var wrong atomic.Pointer[[]ipam.Problem]
		wrong.Store(&[]ipam.Problem{})
		var looks atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Watch(ctx, func(context.Context) (ipam.Status, error) {
				looks.Add(1)
				return ipam.Status{Problems: *wrong.Load()}, nil
			})
		}()
		// during tells how often was looked, and what was heard, in some time.
		during := func(d time.Duration, most int64, want ...string) {
			t.Helper()
			before := looks.Load()
			time.Sleep(d) // in the bubble this takes no time
			synctest.Wait()
			if n := looks.Load() - before; n > most {
				t.Errorf("looked %d times in %v, want at most %d", n, d, most)
			}
			list, err := heard.Kept()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range list {
				got = append(got, e.Kind)
			}
			if !slices.Equal(got, want) {
				t.Errorf("heard %q in %v, want %q", got, d, want)
			}
		}
		during(time.Second, 1)
		during(time.Hour, 360)

		lasting := ipam.Problem{Code: "no-docker-socket", Text: "no socket"}
		wrong.Store(&[]ipam.Problem{lasting})
		during(calmInterval, 2, ProblemBegan)
		during(time.Hour, 361)

		for range 10 { // somebody goes and comes, and somebody has an address
			wrong.Store(&[]ipam.Problem{lasting, {Code: "peer-unreachable", Text: "unreachable: host-b"}})
			s.Stirred()
			during(watchInterval, 2, ProblemBegan)
			wrong.Store(&[]ipam.Problem{lasting})
			s.Note(ipam.Note{Kind: ipam.NotePeerJoined, From: "host-b"})
			during(watchInterval, 2, "peer-joined", ProblemEnded)
		}
		for range 100 { // a busy host
			s.Stirred()
			during(time.Second, 1)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
