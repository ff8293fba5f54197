package ipam_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// clockSets are how somebody sets the clock just after an address was granted.
var clockSets = []struct {
	by      time.Duration
	running bool // the process, at that time
}{{-1500 * time.Millisecond, false}, {-time.Hour, false}, {time.Hour, false}, {time.Hour, true}}

// A container with two networks on one pool has its first address and awaits the
// second when the clock is set. The list that comes then has not got it yet, and
// nobody, itself on its other network least of all, takes that for its end.
func TestClockSetWhileASecondAddressIsAwaited(t *testing.T) {
	for _, set := range clockSets {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			h, n, other, networks := onTwoNetworks(t)
			mustAsk(t, h, n, "web", 7, "10.50.0.9")
			h.SetClock(set.by, set.running)
			look(h, networks...)
			if got := mustAsk(t, h, other, "web", 8, "").Address.Addr(); got == address("10.50.0.9") {
				t.Error("the same container got its address again on its other network")
			}
			wantErr(t, ask(h, other, "db", 9, "10.50.0.9").Err, ipam.ErrAddressInUse, "web")

			// It has gone indeed.
			h.Now = h.Now.Add(time.Minute)
			look(h, networks...)
			mustAsk(t, h, other, "db", 9, "10.50.0.9")
		})
	}
}

// A container is slow to start, and the clock is set meanwhile: it has the time that
// it has otherwise.
func TestClockSetDuringASlowStart(t *testing.T) {
	for _, set := range clockSets {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			h := withSocket(t)
			n := network(t, h, "10.50.0.0/24")
			look(h, on("10.50.0.0/24"))
			mustAsk(t, h, n, "web", 7, "10.50.0.9")
			h.SetClock(set.by, set.running)
			for range 3 {
				look(h, on("10.50.0.0/24"))
				h.Now = h.Now.Add(9 * time.Second)
			}
			if s, err := h.Machine().Who(h.Now, address("10.50.0.9")); err != nil || s.State != "held" {
				t.Errorf("it is %+v, %v", s, err)
			}
			for _, c := range h.Call(&ipam.CollectRequest{Findings: h.Machine().Audit(h.Now).Findings}).Collected {
				if c.Outcome != ipam.CollectedKept {
					t.Errorf("gc says %+v", c)
				}
			}
		})
	}
}

// Where nobody has set the clock a process that starts anew trusts what it noted, and
// after a start of the host nothing is in the making: the first list that lacks a
// container lets its address go to the next one.
func TestClockThatNobodySet(t *testing.T) {
	for _, reboot := range []bool{false, true} {
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "web", 7, "10.50.0.9")
		if reboot {
			h.Reboot(-time.Minute) // without a clock that runs on
		} else {
			h.Now = h.Now.Add(time.Hour)
			h.Restart()
		}
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "db", 8, "10.50.0.9")
	}
}

// The clock was set while the process ran, then the process starts anew: what it
// noted under the first clock is as old as the second one.
func TestClockSetBeforeARestart(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, "web", 7, "10.50.0.9")
	h.SetClock(time.Hour, true)
	h.Restart()
	look(h, on("10.50.0.0/24"))
	wantErr(t, ask(h, n, "db", 8, "10.50.0.9").Err, ipam.ErrAddressInUse, "web")
	h.CheckDisk()
}

// A damaged record of the clock is a damaged database.
func TestDamagedClock(t *testing.T) {
	h := withSocket(t)
	for key, value := range h.Disk {
		if key == "identity\x00\x00clock" {
			h.Disk[key] = value[:len(value)-1]
			if _, err := ipam.Restore(ipam.Config{Name: "host-a"}, h.Disk.Load); err == nil {
				t.Error("it was read")
			}
			return
		}
	}
	t.Error("there is no record of the clock")
}

// A clock was ahead by years as an address was freed, and is right again: the host that leaves waits no longer for the
// address to have rested than otherwise, also where its process has started since.
func TestLeaveAfterAClockThatWasAhead(t *testing.T) {
	const ahead = 10 * 365 * 24 * time.Hour
	for _, starts := range []bool{false, true} {
		c := newLockstep(t, 3)
		c.found()
		cidr := prefix("10.50.0.0/24")
		if r := c.ask(1, docker(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
		right := c.now
		c.now = right.Add(ahead)
		c.step(1, ipam.ClockSet{By: ahead})
		c.stop(1, cidr)
		c.now = right
		c.step(1, ipam.ClockSet{By: -ahead})
		if starts {
			c.start(1)
		}
		c.wait(10 * time.Second)
		c.vacate(1, cidr)
		c.call(1, &ipam.LeaveRequest{})
		c.wait(time.Hour)
		if s := c.status(1).State; s != ipam.Left {
			t.Errorf("its process has started since: %t; it is %s", starts, s)
		}
	}
}
