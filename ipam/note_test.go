package ipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/trade"
)

// usesOf tells from a trail who uses which address at its end, as whoever
// reads the events does.
func usesOf(trail []ipam.Note) map[netip.Addr]ipam.Use {
	uses := map[netip.Addr]ipam.Use{}
	for _, n := range trail {
		switch n.Kind {
		case ipam.NoteGranted, ipam.NoteDescribed, ipam.NoteStranger:
			uses[n.Address] = n.Use
		case ipam.NoteFreed, ipam.NoteWithdrawn:
			delete(uses, n.Address)
		case ipam.NotePoolDeleted:
			for a := range uses {
				if n.Pool.Contains(a) {
					delete(uses, a)
				}
			}
		default:
		}
	}
	return uses
}

// checkTrail fails the test unless the trail of a host tells just what it
// holds.
func checkTrail(t *testing.T, h *machinetest.Host) {
	t.Helper()
	list, err := h.Machine().Addresses(h.Now, "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[netip.Addr]ipam.Use{}
	for _, s := range list {
		if slices.Contains([]string{"held", "gateway", "host", "stranger"}, s.State) {
			u := ipam.Use{Kind: s.Kind, Container: s.Container, Name: s.Name, Since: s.Since}
			if s.Kind == "client" {
				u.Name, u.Container = "", s.Name
			}
			want[s.Address] = u
		}
	}
	checkPages(t, h, list)
	got := usesOf(h.Trail)
	for a, u := range got {
		u.MAC = ipam.MAC{} // in other words in a status
		got[a] = u
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("what is held (-) and what the trail tells (+):\n%s", diff)
	}
}

// checkPages fails the test unless what is held comes in pages as it does at once.
func checkPages(t *testing.T, h *machinetest.Host, list []ipam.AddressStatus) {
	t.Helper()
	same := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
	if diff := cmp.Diff(list, portions(t, h, ipam.Listing{Limit: 2}), same); diff != "" {
		t.Errorf("what is listed at once (-) and in portions (+):\n%s", diff)
	}
	holders := map[string]bool{}
	pools := map[netip.Prefix][]ipam.AddressStatus{}
	for _, s := range list {
		if s.Name != "" && !holders[s.Name] {
			holders[s.Name] = true
			at := slices.Clone(list)
			at = slices.DeleteFunc(at, func(o ipam.AddressStatus) bool { return o.Name != s.Name || o.State != "held" })
			if diff := cmp.Diff(at, portions(t, h, ipam.Listing{Holder: s.Name, Limit: 3}), same, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what %s holds by the list of all (-) and in portions (+):\n%s", s.Name, diff)
			}
		}
		if slices.Contains([]string{"held", "gateway", "host", "stranger"}, s.State) {
			pools[s.Pool] = append(pools[s.Pool], s)
		}
	}
	for pool, want := range pools {
		got := portions(t, h, ipam.Listing{Pool: pool.String(), Held: true, Limit: 2})
		if diff := cmp.Diff(want, got, same); diff != "" {
			t.Errorf("what is held in %v at once (-) and in pages (+):\n%s", pool, diff)
		}
	}
}

// portions is what a listing lists, by portions.
func portions(t *testing.T, h *machinetest.Host, q ipam.Listing) []ipam.AddressStatus {
	t.Helper()
	out := []ipam.AddressStatus{}
	for {
		p, err := h.Machine().List(h.Now, q)
		if err != nil || len(p.Addresses) > 2*q.Limit {
			t.Fatalf("a portion of %d addresses, %v", len(p.Addresses), err)
		}
		if out = append(out, p.Addresses...); !p.Next.IsValid() {
			return out
		}
		q.After = p.Next
	}
}

// A container's address, from its beginning to its end, with what was learnt
// of it meanwhile.
func TestTrailOfAnAddress(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	mac := ipam.MAC{2, 0, 0, 0, 0, 7}
	h.Trail = nil
	r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: mac})
	a, began := r.Address.Address.Addr(), h.Now
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Inventory{Networks: []ipam.InventoryNetwork{{
		Subnets:   []netip.Prefix{n.Pool},
		Endpoints: []ipam.InventoryEndpoint{{Address: a, Container: "4f3a", Name: "web", MAC: mac}},
	}}})
	h.Now = h.Now.Add(time.Minute)
	release(h, n, a)
	use := ipam.Use{Kind: "container", Name: "web", MAC: mac, Since: began}
	known := use
	known.Container = "4f3a"
	want := []ipam.Note{
		{Kind: ipam.NoteGranted, Pool: n.Pool, Address: a, Use: use},
		{Kind: ipam.NoteDescribed, Pool: n.Pool, Address: a, Use: known},
		{Kind: ipam.NoteFreed, Pool: n.Pool, Address: a, Use: known},
	}
	if diff := cmp.Diff(want, h.Trail, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("trail (-want +got):\n%s", diff)
	}
}

// Every range that changes hands is noted with both owners, by those that have
// it and by those that only hear of it.
func TestTrailOfARange(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Chunk: 8})
	n := network(t, h, "10.50.0.0/26")
	h.Trail = nil
	for range 40 { // more than was dealt out
		if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var moved []ipam.Note
	for _, note := range h.Trail {
		if note.Kind == ipam.NoteMoved {
			moved = append(moved, note)
		}
	}
	if len(moved) == 0 {
		t.Fatal("nothing moved")
	}
	for _, note := range moved {
		if note.From != "free" || note.To != "host-a" || !n.Pool.Contains(note.Address) || note.Last.Less(note.Address) || note.Pool != n.Pool {
			t.Errorf("moved: %+v", note)
		}
	}
}

// A range that is excluded is noted with those who had it: this peer owned a part, and the rest was free.
func TestTrailOfAnExclusion(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Chunk: 8})
	network(t, h, "10.50.0.0/26")
	h.Trail = nil
	first, last := netip.MustParseAddr("10.50.0.30"), netip.MustParseAddr("10.50.0.40")
	if r := h.Call(&ipam.ReserveRequest{First: first, Last: last, Kind: chronicle.KindExcluded}); r.Err != nil {
		t.Fatal(r.Err)
	}
	had := map[string]int{}
	next := first
	for _, note := range h.Trail {
		if note.Kind != ipam.NoteMoved {
			continue
		}
		if note.Address != next || note.To != "reserved" {
			t.Errorf("moved: %+v, want from %v on", note, next)
		}
		next = note.Last.Next()
		had[note.From]++
	}
	if next != last.Next() || had["host-a"] != 1 || had["free"] != 1 {
		t.Errorf("until %v, from %v", next, had)
	}
}

// Every question to another peer ends in one of the words: who has some to
// spare grants it, who has not does not, and who is gone is silent.
func TestAnswersAreNoted(t *testing.T) {
	c, cidr := lab(t)
	held := 0
	for range 300 { // more than there are
		if r := c.ask(0, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}); r.Err == nil {
			held++
		} else {
			break
		}
	}
	words := map[string]int{}
	for _, n := range c.peers[0].asked {
		words[n.To]++
		if !slices.Contains(trade.Answers(), n.To) || n.From != "host-1" && n.From != "host-2" && n.From != "host-b" && n.From != "host-c" || n.Pool != cidr {
			t.Errorf("%+v", n)
		}
	}
	if words["granted"] == 0 || words["full"] == 0 || held < 200 {
		t.Errorf("%d addresses, answers %v", held, words)
	}
}
