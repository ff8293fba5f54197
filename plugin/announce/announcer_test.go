package announce

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
)

// A stage is an announcer with the world around it.
type stage struct {
	*Announcer
	mu     sync.Mutex
	held   map[netip.Addr]MAC
	broken error
	sent   []Packet
	counts map[string]int
	fault  error
	kept   []byte
	log    bytes.Buffer
}

// play runs an announcer until the test ends.
func play(t *testing.T, kept []byte) *stage {
	t.Helper()
	s := &stage{held: map[netip.Addr]MAC{}, counts: map[string]int{}}
	s.Announcer = New(Config{
		Held: func(_ context.Context, a netip.Addr) (MAC, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.held[a], nil
		},
		Send: func(p Packet) (int, bool, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.broken != nil {
				return 0, false, s.broken
			}
			s.sent = append(s.sent, p)
			return 1, false, nil
		},
		Count: func(result string) { s.counts[result]++ },
		Fault: func(err error) { s.fault = err },
		Kept:  kept, Keep: func(content []byte) error { s.kept = slices.Clone(content); return nil },
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return s
}

// starts has a container start.
func (s *stage) starts(last, hw int) {
	s.mu.Lock()
	s.held[address(last)] = mac(hw)
	s.mu.Unlock()
	s.Granted(address(last), mac(hw))
}

// after returns what was sent within a time.
func (s *stage) after(d time.Duration) []Packet {
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.sent
	s.sent = nil
	return out
}

// Nothing is sent for an address once it is not held with that MAC.
func TestAnnouncesWhatIsHeld(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := play(t, nil)
		s.Listed(List{Begun: time.Now(), Complete: true, Networks: []Network{bridged}})
		s.starts(7, 1)
		s.starts(8, 2)
		if got := s.after(time.Millisecond); len(got) != 2 {
			t.Errorf("at once: %+v", got)
		}
		s.mu.Lock()
		delete(s.held, address(7)) // the container is gone
		s.held[address(8)] = mac(9)
		s.mu.Unlock()
		if got := s.after(time.Minute); len(got) != 0 {
			t.Errorf("after they had gone: %+v", got)
		}
		if want := map[string]int{Sent: 2, Gone: 2}; !maps.Equal(s.counts, want) {
			t.Errorf("counted %v, want %v", s.counts, want)
		}
	})
}

// The networks that the engine listed are known to the next process, before a list.
func TestNetworksAreKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := play(t, nil)
		s.Listed(List{Begun: time.Now(), Complete: true, Networks: []Network{bridged}})
		kept := s.kept
		if len(kept) == 0 {
			t.Fatal("nothing was kept")
		}
		s.kept = nil
		s.Listed(List{Begun: time.Now(), Complete: true, Networks: []Network{bridged}})
		s.Listed(List{Begun: time.Now()})
		if s.kept != nil {
			t.Error("what did not change was kept again")
		}
		next := play(t, kept)
		next.starts(7, 1)
		if got := next.after(time.Minute); len(got) != turns || got[0].Link != bridged.Link {
			t.Errorf("sent %+v", got)
		}
		// While the disk hangs requests are taken, and announced.
		slow := play(t, kept)
		hangs := make(chan bool)
		slow.cfg.Keep = func([]byte) error { <-hangs; return errors.New("no space left") }
		go slow.Listed(List{Begun: time.Now(), Complete: true, Networks: []Network{bridged, {ID: "new"}}})
		synctest.Wait()
		slow.starts(7, 1)
		if got := slow.after(time.Minute); len(got) != turns {
			t.Errorf("sent %+v while the disk hangs", got)
		}
		close(hangs)
		synctest.Wait()
		if slow.log.Len() == 0 {
			t.Error("what could not be kept was not told")
		}
		damaged := play(t, []byte(`[{"id":"net","subnets":["somewhere"]}]`))
		damaged.starts(7, 1)
		if got := damaged.after(time.Minute); len(got) != 0 || damaged.log.Len() == 0 {
			t.Errorf("sent %+v, logged %s", got, &damaged.log)
		}
	})
}

// A process that may not send says so until it may, and goes on; what else fails is counted.
func TestCannotSend(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := play(t, nil)
		s.Listed(List{Begun: time.Now(), Complete: true, Networks: []Network{bridged}})
		set := func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.broken = err
		}
		set(syscall.EPERM)
		s.starts(7, 1)
		s.after(time.Minute)
		if s.counts[Failed] != turns || !errors.Is(s.fault, syscall.EPERM) {
			t.Errorf("counted %v, fault %v", s.counts, s.fault)
		}
		set(syscall.ENETDOWN)
		s.starts(7, 2)
		s.after(time.Minute)
		if s.counts[Failed] != 2*turns || !errors.Is(s.fault, syscall.EPERM) {
			t.Errorf("counted %v, fault %v", s.counts, s.fault)
		}
		set(nil)
		s.starts(7, 3)
		if got := s.after(time.Minute); len(got) != turns || s.fault != nil {
			t.Errorf("sent %+v, fault %v", got, s.fault)
		}
	})
}

// An announcer that is not there takes everything.
func TestNoAnnouncer(t *testing.T) {
	var a *Announcer
	a.Granted(address(7), mac(1))
	a.Made(bridged.Subnets[0])
	a.Forget(address(1), address(2))
	a.Listed(List{})
}
