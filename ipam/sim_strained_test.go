package ipam_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Engines start below containers, and start others before they answer anybody; plugins cannot ask them for minutes, or not for all that
// they have; and hosts lose their databases that are told of no other host. No address is ever two containers'.
func TestSimStrained(t *testing.T) {
	inTurn(t, strainedSchedule, 200, 60).has(t, "early typed", "made while it starts", "deaf", "network hangs", "reinstalled")
}

func strainedSchedule(seed uint64) ipamtest.Options {
	o := schedule(seed)
	o.Strained = true
	return o
}
