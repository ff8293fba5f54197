package cli

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// addressRow is an address in the JSON of ip ls.
type addressRow struct {
	Address   string     `json:"address"`
	Pool      string     `json:"pool"`
	Peer      string     `json:"peer"`
	State     string     `json:"state"`
	Container string     `json:"container"`
	Name      string     `json:"name"`
	MAC       string     `json:"mac"`
	Since     *time.Time `json:"since"` // null where nobody knows
}

// addressJSON is an address in the JSON of other commands.
type addressJSON struct {
	addressRow
	Kind        string     `json:"kind"`
	ConfirmedAt *time.Time `json:"confirmed,omitempty"` // when another peer last stood by it; nil: known here

	Identity *admin.Identity `json:"identity,omitempty"` // of one address; nil: it has none
}

// identityText names the label set of a container; empty if there is none.
func identityText(id *admin.Identity) string {
	if id == nil {
		return ""
	}
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(id.Labels)) {
		labels = append(labels, name+"="+id.Labels[name])
	}
	text := strconv.FormatUint(id.Number, 10)
	if len(labels) > 0 {
		text += " (" + strings.Join(labels, ", ") + ")"
	}
	return text
}

func rowOf(s ipam.AddressStatus) addressRow {
	r := addressRow{
		Address: s.Address.String(), Pool: s.Pool.String(), Peer: s.Peer, State: s.State,
		Container: s.Container, Name: s.Name, MAC: s.MAC,
	}
	if !s.Since.IsZero() {
		r.Since = new(s.Since.UTC())
	}
	return r
}

func rowsOf(list []ipam.AddressStatus) []addressRow {
	rows := make([]addressRow, len(list))
	for i, s := range list {
		rows[i] = rowOf(s)
	}
	return rows
}

func fullOf(s ipam.AddressStatus) addressJSON { return addressJSON{addressRow: rowOf(s), Kind: s.Kind} }

func fullsOf(list []ipam.AddressStatus) []addressJSON {
	out := make([]addressJSON, len(list))
	for i, s := range list {
		out[i] = fullOf(s)
	}
	return out
}

// States of an address, see [ipam.AddressStatus].
const (
	stateHeld     = "held"
	stateGateway  = "gateway"
	stateHost     = "host"
	stateStranger = "stranger"
	stateResting  = "resting"
	stateReady    = "ready"
	stateFree     = "free"
)

// freed reports whether nobody has the address any more; who is named had it
// last.
func freed(s ipam.AddressStatus) bool {
	return s.State == stateResting || s.State == stateReady || s.State == stateFree
}

// holder returns what people call the holder of an address; empty if there is
// none, or it has no name.
func holder(s ipam.AddressStatus) string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Container != "":
		return shortID(s.Container)
	case s.Kind == stateGateway || s.Kind == stateHost:
		return s.Peer // empty for a gateway that is reserved
	}
	return ""
}

// shown is holder for tables: by the MAC where there is no name yet, and who
// had an address is told from who has it.
func shown(s ipam.AddressStatus) string {
	name := cmp.Or(holder(s), s.MAC)
	if name != "" && freed(s) {
		return "last: " + name
	}
	return name
}

// somebody is holder in a sentence.
func somebody(s ipam.AddressStatus) string {
	switch name := holder(s); {
	case name != "":
		return name
	case s.Kind == stateStranger:
		return "another device on the network, with MAC " + s.MAC
	case s.MAC != "":
		return "a container with MAC " + s.MAC
	}
	return "somebody"
}

// shortID shortens a container's ID to what docker ps shows.
func shortID(id string) string {
	const full, short = 64, 12
	if len(id) == full {
		return id[:short]
	}
	return id
}

// addresses prints addresses as a table.
func (v view) addresses(list []ipam.AddressStatus) {
	rows := make([][]string, len(list))
	for i, s := range list {
		kind := s.Kind
		if kind == s.State { // a gateway or an address of the host: said already
			kind = ""
		}
		rows[i] = []string{s.Address.String(), s.State, shown(s), kind, shortID(s.Container), s.MAC, v.ago(s.Since), s.Pool.String(), s.Peer}
	}
	v.table([]column{
		{title: "ADDRESS"},
		{title: "STATE"},
		{title: "HOLDER", cut: true},
		{title: "KIND", drop: 2},
		{title: "CONTAINER", cut: true, drop: 4},
		{title: "MAC", drop: 6},
		{title: "SINCE", drop: 1},
		{title: "POOL", drop: 3},
		{title: "PEER", cut: true, drop: 5},
	}, rows)
}
