package ipam_test

import (
	"testing"

	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// Engines that give endpoints no MAC, some of them from before 29: what these ask for with an address may
// be a container's, a network's or what they have, and no address is ever two containers'.
func TestSimBare(t *testing.T) {
	inTurn(t, bareSchedule, 400, 60).has(t, "early typed", "replayed address", "started in order", "asked again below containers")
}

func bareSchedule(seed uint64) ipamtest.Options {
	o := schedule(seed)
	o.Bare = true
	return o
}
