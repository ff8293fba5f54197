package ipam

import (
	"encoding/binary"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/space"
)

// Whether a container that no list shows may still be starting is told from when it
// was granted its address, by a clock that anybody may set meanwhile: a time server,
// an operator, the resumption of a virtual machine. What was granted a second ago then
// seems an hour old, or is yet to come. So this peer notices when the clock is set, and
// takes what is older than that for as old as that: never for older than it is.

// ClockSlack is how far the clock may be off what it should show before somebody has
// set it: two readings at one moment are not quite at one.
const ClockSlack = 50 * time.Millisecond

// clockState is what is on disk of the clock.
type clockState struct {
	boot uint64 // hash of the [Config.HostBoot] of the start that wrote it
	zero int64  // [Config.HostStart] of that; 0: not known
	set  int64  // since when the clock has not been set; 0: since before anything that counts
}

// beginClock finds out whether somebody has set the clock since this peer wrote down
// how it stood. No container of an earlier start of the host is in the making.
func (m *Machine) beginClock() {
	was := m.restoredClock
	is := clockState{boot: m.hostBoot()}
	if !m.cfg.HostStart.IsZero() {
		is.zero = m.cfg.HostStart.UnixNano()
	}
	off := time.Duration(is.zero - was.zero)
	switch {
	case was.boot != is.boot:
	case was.zero == is.zero, was.zero != 0 && is.zero != 0 && off.Abs() < ClockSlack:
		is.zero, is.set = was.zero, was.set
	default:
		is.set = m.now.UnixNano()
	}
	if is.set != 0 {
		m.clockSet = time.Unix(0, is.set)
	}
	m.setBefore = m.clockSet
	m.saveClock(is)
}

// setClock takes note that somebody has set the clock by that much.
func (m *Machine) setClock(by time.Duration) { m.ageAnew(by) }

// ageAnew takes nothing for older than now, by a clock that was set by that much.
func (m *Machine) ageAnew(by time.Duration) {
	m.clockSet = m.now
	is := clockState{boot: m.hostBoot(), zero: m.restoredClock.zero, set: m.now.UnixNano()}
	if is.zero != 0 {
		is.zero += int64(by) // the next start finds the clock as it is now
	}
	m.saveClock(is)
}

func (m *Machine) hostBoot() uint64 { return uint64(space.KeyOf("start of a host", m.cfg.HostBoot)) }

// sureSince returns since when something is held, reserved or asked for that was noted
// at a time of the clock, as far as is certain: later where the clock has been set.
func (m *Machine) sureSince(at time.Time) time.Time { return m.sureBy(at, m.clockSet) }

// sureBy is sureSince by a clock that was last set then.
func (m *Machine) sureBy(at, set time.Time) time.Time {
	if at.Before(set) || at.After(m.now.Add(ClockSlack)) {
		return set
	}
	return at
}

// heldSince is sureSince for the state of an address, such as held or freed.
func (m *Machine) heldSince(rec *space.Record) time.Time { return m.sureSince(time.Unix(0, rec.Since)) }

func (m *Machine) saveClock(c clockState) {
	if c == m.restoredClock {
		return
	}
	m.restoredClock = c
	b := []byte{formatRecord}
	for _, v := range []uint64{c.boot, uint64(c.zero), uint64(c.set)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	m.out.Put(bucketIdentity, keyClock, b)
}

func parseClock(value []byte) (c clockState, err error) {
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of the clock")
	}
	if b := r.Fixed("times of the clock", 3*8); b != nil {
		c.boot = binary.BigEndian.Uint64(b)
		c.zero, c.set = int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:]))
	}
	return c, r.Done()
}
