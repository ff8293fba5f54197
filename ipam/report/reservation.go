package report

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// ReservationStatus is a stretch of addresses that is kept back.
type ReservationStatus struct {
	Pool      netip.Prefix `json:"pool"`
	PoolName  string       `json:"pool_name"`
	First     netip.Addr   `json:"first"`
	Last      netip.Addr   `json:"last"`
	Addresses uint64       `json:"addresses"`
	Kind      string       `json:"kind"` // as [chronicle.Kind] names it
	Note      string       `json:"note"` // why, or the name or MAC that it is kept for
	// Peer is the peer on which what is kept for a name is in use, or was a
	// moment ago; empty if it is nowhere.
	Peer string `json:"peer"`
}

// ReservationOf shows a reservation, without the peer that has its addresses.
func ReservationOf(p *chronicle.Pool, r *chronicle.Reservation) ReservationStatus {
	return ReservationStatus{
		Pool: p.CIDR, PoolName: p.Name, First: addr.Nth(p.CIDR, r.Range.Start), Last: addr.Nth(p.CIDR, r.Range.End-1),
		Addresses: uint64(r.Range.Size()), Kind: r.Kind.String(), Note: r.Note,
	}
}
