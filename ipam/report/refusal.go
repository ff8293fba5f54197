package report

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/sentence"
)

// maxRefusals is how many refusals are remembered, of all pools together: the
// story of an address is asked for soon after it went wrong, or never.
const maxRefusals = 256

// Refusal is an address that somebody asked for by name and did not get, since
// this process started.
type Refusal struct {
	Address netip.Addr `json:"address"`
	To      string     `json:"to"`   // who asked
	Code    string     `json:"code"` // as [sentence.Code] returns it
	Why     string     `json:"why"`  // the sentence that they read
	First   time.Time  `json:"first"`
	Last    time.Time  `json:"last"`
	Times   int        `json:"times"`
}

// Refusals are the last refusals, in order.
type Refusals []Refusal

// With returns the refusals with one more: a request of somebody for one certain address. The
// same to the same asker counts once more. The former refusals are not valid any more.
func (r Refusals) With(now time.Time, a netip.Addr, to string, err error) Refusals {
	why := Refusal{Address: a.Unmap(), To: to, Code: sentence.Code(err), Why: err.Error(), First: now, Last: now, Times: 1}
	same := func(old Refusal) bool {
		return old.Address == why.Address && old.To == why.To && old.Code == why.Code
	}
	if i := slices.IndexFunc(r, same); i >= 0 {
		why.First, why.Times = r[i].First, r[i].Times+1
		r = slices.Delete(r, i, i+1)
	}
	if len(r) >= maxRefusals {
		r = slices.Delete(r, 0, 1)
	}
	return append(r, why)
}

// of returns the refusals of an address, the last one first.
func (r Refusals) of(a netip.Addr) []Refusal {
	out := []Refusal{}
	for _, refused := range slices.Backward(r) {
		if refused.Address == a {
			out = append(out, refused)
		}
	}
	return out
}
