package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/space"
)

// maxRefusals is how many refusals are remembered, of all pools together: the
// story of an address is asked for soon after it went wrong, or never.
const maxRefusals = 256

// Refusal is an address that somebody asked for by name and did not get, since
// this process started.
type Refusal struct {
	Address netip.Addr `json:"address"`
	To      string     `json:"to"`   // who asked
	Code    string     `json:"code"` // as [Code] returns it
	Why     string     `json:"why"`  // the sentence that they read
	First   time.Time  `json:"first"`
	Last    time.Time  `json:"last"`
	Times   int        `json:"times"`
}

// noteRefusal remembers that a request for one certain address was refused.
// The same to the same asker counts once more.
func (m *Machine) noteRefusal(r Request, err error) {
	var a netip.Addr
	var to string
	switch q := r.(type) {
	case *AddressRequest:
		a, to = q.Address, askerText(q)
	case *ClientRequest:
		a, to = q.Address, askerText(&AddressRequest{Purpose: ForClient, ID: q.ID})
	}
	if !a.IsValid() || err == nil {
		return
	}
	why := Refusal{Address: a.Unmap(), To: to, Code: Code(err), Why: err.Error(), First: m.now, Times: 1}
	same := func(old Refusal) bool {
		return old.Address == why.Address && old.To == why.To && old.Code == why.Code
	}
	if i := slices.IndexFunc(m.refusals, same); i >= 0 {
		why.First, why.Times = m.refusals[i].First, m.refusals[i].Times+1
		m.refusals = slices.Delete(m.refusals, i, i+1)
	}
	why.Last = m.now
	if len(m.refusals) >= maxRefusals {
		m.refusals = slices.Delete(m.refusals, 0, 1)
	}
	m.refusals = append(m.refusals, why)
}

// askerText names whoever asked for an address.
func askerText(q *AddressRequest) string {
	h := space.Holder{Kind: space.Container, Name: q.Name, MAC: q.MAC, Ref: q.ID}
	switch q.Purpose {
	case ForGateway:
		return "a network, as its gateway"
	case ForUnmarked:
		return "the engine, as an auxiliary address or for an endpoint that it has"
	case ForClient:
		h.Kind = space.Client
	case ForContainer:
	}
	return whoText(h)
}
