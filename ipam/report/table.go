package report

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// TableRow is a row of a pool's table: a stretch of addresses, and who takes free ones of it first.
type TableRow struct {
	Pool      netip.Prefix `json:"pool"`
	Start     netip.Addr   `json:"start"`
	End       netip.Addr   `json:"end"` // the last address
	Primary   *TablePeer   `json:"primary,omitempty"`
	Secondary *TablePeer   `json:"secondary,omitempty"` // missing where there is one peer
}

// TablePeer is a peer that is ranked in a row.
type TablePeer struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
}

// TableListing asks for some rows of the tables of pools.
type TableListing struct {
	Pool  string     // by subnet or name; empty: all pools
	After netip.Addr // begin behind this address; the zero one: at the beginning
	Limit int        // how many rows there are at most; 0: all
}

// TablePortion is a part of a listing.
type TablePortion struct {
	Rows []TableRow
	Next netip.Addr // [TableListing.After] of the next portion; the zero one: there is none
}

// Table lists the rows of the tables of the picture's pools, in order.
func (p *Picture) Table(q TableListing) TablePortion {
	out := TablePortion{Rows: []TableRow{}}
	peers := map[chronicle.Ranked]*TablePeer{{}: nil}
	show := func(t chronicle.Ranked) *TablePeer {
		if _, known := peers[t]; !known {
			peers[t] = &TablePeer{ID: t.ID.String(), Name: string(p.Peers[t.ID].Name), Zone: string(t.Zone)}
		}
		return peers[t]
	}
	for i := range p.Pools {
		pool := &p.Pools[i]
		r, some := pool.behind(q.After)
		if !some {
			continue
		}
		for row := range p.State.Rows(pool.Pool, r.Start) {
			if q.Limit > 0 && len(out.Rows) == q.Limit {
				out.Next = out.Rows[len(out.Rows)-1].End
				return out
			}
			out.Rows = append(out.Rows, TableRow{
				Pool: pool.CIDR, Start: addr.Nth(pool.CIDR, row.Start), End: addr.Nth(pool.CIDR, row.End-1),
				Primary: show(row.Primary), Secondary: show(row.Secondary),
			})
		}
	}
	return out
}
