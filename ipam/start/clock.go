package start

import (
	"encoding/binary"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/space"
)

// Whether a container that no list shows may still be starting is told from when it was granted its address, by a clock that
// anybody may set meanwhile: a time server, an operator, the resumption of a virtual machine. What was granted a second ago
// then seems an hour old, or is yet to come. So the peer notices when the clock is set, also while it did not run.

// clock is what is on disk of the clock.
type clock struct {
	boot uint64 // hash of the boot ID of the host
	zero int64  // when the host started, by its clock, in nanoseconds since 1970; 0: not known
	set  int64  // since when the clock has not been set, likewise; 0: since before anything that counts
}

// HostBoot is one start of the host.
type HostBoot struct {
	ID string // tells one start of the host from another: the kernel's boot ID
	// At is when the host started, by its clock as it stands now and the clock that nobody sets, which stands still while the
	// host is suspended. Another time for the same ID says that somebody has set the clock, or that the host slept. Zero: the
	// kernel does not say.
	At time.Time
}

func (b HostBoot) hash() uint64 { return uint64(space.KeyOf("start of a host", b.ID)) }

// BeginClock finds out whether somebody has set the clock since this was written down. It returns since when the clock was not
// set; zero: for long enough. No container of an earlier start of the host is in the making.
func (s *Start) BeginClock(host HostBoot) (set time.Time) {
	was, is := s.clock, clock{boot: host.hash()}
	if !host.At.IsZero() {
		is.zero = host.At.UnixNano()
	}
	off := time.Duration(is.zero - was.zero)
	switch {
	case was.boot != is.boot:
	case was.zero == is.zero, was.zero != 0 && is.zero != 0 && off.Abs() < engine.ClockSlack:
		is.zero, is.set = was.zero, was.set
	default:
		is.set = s.out.Nanos()
	}
	s.saveClock(is)
	if is.set != 0 {
		set = time.Unix(0, is.set)
	}
	return set
}

// Undisturbed returns since when this process has run, and nobody has set its clock, or frozen it, as far as it noticed.
func (s *Start) Undisturbed() time.Time { return s.undisturbed }

// Disturb notes that somebody has set the clock by that much, or frozen the process for a time; then by is 0. The next
// start finds the clock as it is now.
func (s *Start) Disturb(by time.Duration) {
	s.undisturbed = s.out.Now()
	is := s.clock
	is.set = s.out.Nanos()
	if is.zero != 0 {
		is.zero += int64(by)
	}
	s.saveClock(is)
}

func (s *Start) saveClock(c clock) {
	if c == s.clock {
		return
	}
	s.clock = c
	b := []byte{formatRecord}
	for _, v := range []uint64{c.boot, uint64(c.zero), uint64(c.set)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	s.out.Put(bucketIdentity, KeyClock, b)
}

func (s *Start) restoreClock(value []byte) error {
	r := codec.NewReader(value)
	r.Format(formatRecord, "the clock")
	if b := r.Fixed("times of the clock", 3*8); b != nil {
		s.clock = clock{binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:]))}
	}
	return r.Done()
}
