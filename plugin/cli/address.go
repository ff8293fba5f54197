package cli

import (
	"time"

	"github.com/ringlet/ringlet/ipam"
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
	Kind string `json:"kind"`
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

func fullOf(s ipam.AddressStatus) addressJSON { return addressJSON{rowOf(s), s.Kind} }

func fullsOf(list []ipam.AddressStatus) []addressJSON {
	out := make([]addressJSON, len(list))
	for i, s := range list {
		out[i] = fullOf(s)
	}
	return out
}

// holder returns what people call the holder of an address.
func holder(s ipam.AddressStatus) string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Container != "":
		return shortID(s.Container)
	}
	return s.Kind
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
		rows[i] = []string{s.Address.String(), s.State, holder(s), s.Kind, shortID(s.Container), s.MAC, v.ago(s.Since), s.Pool.String(), s.Peer}
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
