package departure

import (
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
)

// lockTime is for how long a peer is silent when the locks of its host end. The host itself gives up what it does under a lock
// 20 seconds after it last reached a majority.
const lockTime = 25 * time.Second

// ExpireLocks returns the commands that end the locks of peers of which this one has had no sign for too long, if it is a voter
// and the lowest live one.
func ExpireLocks(v cluster.View) (out []chronicle.Action) {
	if len(v.State.Locks.Locks) == 0 || !v.Leads() || v.CutOff() {
		return nil
	}
	for _, l := range v.State.Locks.Locks {
		if v.LostFor(l.Owner, lockTime) && len(out) < 100 {
			out = append(out, chronicle.Expire{Name: l.Name, Fence: l.Fence})
		}
	}
	return out
}
