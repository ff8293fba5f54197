package chronicle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/table"
)

// A peer says in which zone it is, and nobody else does. The zone stays with it while it is evicted, and with the cluster when it
// is recovered.
func TestSetZone(t *testing.T) {
	w := found(t, a, b, c)
	before := w.s.Digest()
	w.ok(b, chronicle.SetZone{Zone: "rack-1"})
	if got := w.s.Member(b).Zone; got != "rack-1" || w.s.Digest() == before {
		t.Fatalf("the zone is %q", got)
	}
	w.refused(peer.ID{77}, chronicle.SetZone{Zone: "rack-1"})
	for _, zone := range []peer.Zone{"two racks", "a,b", "\x01", "\x7f", "a\xff", peer.Zone(strings.Repeat("x", peer.MaxZone+1))} {
		// A longer one cannot be decoded, so that none is ever decided.
		if o := w.s.Apply([]chronicle.Command{{Author: b, Number: w.s.Number(b) + 1, Action: chronicle.SetZone{Zone: zone}}}); o[0].Refused == "" {
			t.Errorf("%q is a zone", zone)
		}
		w.numbers[b]++
	}
	w.ok(a, chronicle.Evict{Peer: b})
	w.ok(a, chronicle.Admit{Founder: chronicle.Founder{ID: b, Name: "h"}, Speaks: chronicle.Spoken})
	if got := w.s.Member(b).Zone; got != "rack-1" {
		t.Errorf("behind its return its zone is %q", got)
	}
	again, err := w.s.Refound([16]byte{9}, w.s.Member(b).Founder)
	if err != nil || again.Member(b).Zone != "rack-1" {
		t.Errorf("behind a recovery its zone is %q (%v)", again.Member(b).Zone, err)
	}
	w.ok(b, chronicle.SetZone{})
	w.ok(a, chronicle.SetZone{Zone: peer.Zone(strings.Repeat("x", peer.MaxZone))})
	w.ok(c, chronicle.SetZone{Zone: "größe"})
	if w.s.Member(b).Zone != "" {
		t.Error("a zone cannot be taken back")
	}
}

// The voters are made another way here: the peers are dealt into piles, one for each zone, and taken from the tops.
func TestVotersByZone(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		zones := 1 + src.IntN(9)
		s := &chronicle.State{}
		piles := map[peer.Zone][]peer.ID{}
		for i := range 1 + src.IntN(12) {
			zone := peer.Zone(fmt.Sprint(src.IntN(zones)))
			if zone == "0" {
				zone = "" // those that have named none are in one
			}
			id := peer.ID{byte(i + 1)}
			s.Roster = append(s.Roster, chronicle.Member{Founder: chronicle.Founder{ID: id}, Zone: zone})
			piles[zone] = append(piles[zone], id)
		}
		var want []peer.ID
		for round := 0; len(want) < len(s.Roster); round++ {
			var tops []peer.ID
			for _, pile := range piles {
				if round < len(pile) {
					tops = append(tops, pile[round])
				}
			}
			slices.SortFunc(tops, peer.ID.Compare) // which is the order of the roster
			want = append(want, tops...)
		}
		want = want[:min(len(want), chronicle.MaxVoters)]
		if got := s.Voters(); !slices.Equal(got, want) {
			t.Fatalf("%v: voters are %v, want %v", s.Roster, got, want)
		}
		for _, m := range s.Roster {
			if s.IsVoter(m.ID) != slices.Contains(want, m.ID) {
				t.Fatalf("%v votes or not, depending on whom one asks", m.ID)
			}
		}
		if want[0] != s.Roster[0].ID {
			t.Fatal("the first of the roster is not the first voter")
		}
		if zones == 1 && !slices.Equal(want, piles[s.Roster[0].Zone][:len(want)]) {
			t.Fatal("in one zone the voters are not the first of the roster")
		}
	}
}

// Who opens space goes by the zones: where a peer ranks second for its zone, it gets that block before one where it is third.
func TestOpenByZone(t *testing.T) {
	ids := []peer.ID{a, b, c}
	w := found(t, ids...)
	k := w.pool(a, "10.0.0.0/20", chronicle.DealNone)
	first := func(id peer.ID) addr.Range {
		o := w.ok(id, chronicle.Open{Pool: k, Range: span(0, 16), Size: 8})
		w.ok(id, chronicle.Close{Pool: k, Range: o.Range})
		return o.Range
	}
	before := map[peer.ID]addr.Range{}
	for _, id := range ids {
		before[id] = first(id)
	}
	for _, id := range ids {
		w.ok(id, chronicle.SetZone{Zone: "one"})
	}
	for _, id := range ids {
		if got := first(id); got != before[id] {
			t.Errorf("in one zone %v opens %v, and without zones %v", id.Short(), got, before[id])
		}
	}
	moved := 0
	for _, of := range [][]peer.Zone{{"x", "y", "y"}, {"y", "x", "y"}, {"y", "y", "x"}} {
		for i, id := range ids {
			w.ok(id, chronicle.SetZone{Zone: of[i]})
		}
		for _, id := range ids {
			if first(id) != before[id] {
				moved++
			}
		}
	}
	if moved == 0 {
		t.Error("zones change nothing in who opens what")
	}
}

// The rows of a pool, each with the first two of those whom the table ranks, cover it. Peers that drain come last, in rows as in
// who opens what.
func TestRows(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(a, "10.0.0.0/27", chronicle.DealNone)
	rows := func(from addr.Offset) (rows []chronicle.Row) {
		for r := range w.s.Rows(w.s.Pool(k), from) {
			rows = append(rows, r)
		}
		return rows
	}
	drain := func(id peer.ID) { w.ok(id, chronicle.SetState{Peer: id, Phase: chronicle.Draining}) }
	all := rows(0)
	for i, r := range all {
		if want := span(addr.Offset(i)*8, addr.Offset(i+1)*8); r.Range != want || r.Primary.ID == peer.None || r.Secondary.ID == peer.None || r.Primary == r.Secondary {
			t.Errorf("row %d of 4 is %+v", i, r)
		}
	}
	if len(all) != 4 || len(rows(9)) != 3 || rows(9)[0] != all[1] || len(rows(32)) != 0 {
		t.Errorf("there are %d rows", len(all))
	}
	w.ok(b, chronicle.SetZone{Zone: "y"})
	for i, r := range rows(0) {
		if r.Primary.ID != all[i].Primary.ID || (r.Primary.Zone == "y") == (r.Secondary.Zone == "y") {
			t.Errorf("with two zones row %d is %+v", i, r)
		}
	}
	drain(a)
	for i, r := range rows(0) {
		if r.Primary.ID == a || r.Secondary.ID == a {
			t.Errorf("while one drains, row %d is %+v", i, r)
		}
	}
	drain(b)
	for i, r := range rows(0) {
		if want := w.s.Pool(k).Table.Before(r.Start, a, b); r.Primary.ID != c || (r.Secondary.ID == a) != want || (r.Secondary.ID == b) == want {
			t.Errorf("while two of three drain, row %d is %+v", i, r)
		}
	}
	drain(c)
	for i, r := range rows(0) {
		if r.Primary.ID != all[i].Primary.ID {
			t.Errorf("while all drain, row %d is %+v", i, r)
		}
	}
	one := found(t, a)
	k = one.pool(a, "10.0.0.0/30", chronicle.DealNone)
	for r := range one.s.Rows(one.s.Pool(k), 0) {
		if r.Range != span(0, 4) || r.Primary.ID != a || r.Secondary != (table.Peer{}) {
			t.Errorf("the only row of the only peer is %+v", r)
		}
	}
}

// A peer sets its own phase, one step at a time, and drains while another one does only if it says so (R76). At the first level,
// as peers of it know it, anybody sets any phase.
func TestOneDrain(t *testing.T) {
	w := found(t, a, b, c)
	w.pool(a, "10.0.0.0/24", chronicle.DealAll)
	set := func(id peer.ID, phase chronicle.Phase) chronicle.SetState {
		return chronicle.SetState{Peer: id, Phase: phase}
	}
	w.ok(a, set(b, chronicle.Filling))
	w.ok(a, chronicle.Raise{Level: chronicle.WithOneDrain})
	w.refused(a, set(b, chronicle.Active))
	w.refused(b, set(b, chronicle.Draining))
	w.refused(b, set(b, chronicle.Filling))
	w.ok(b, set(b, chronicle.Active))
	w.refused(b, set(b, chronicle.Active))
	w.refused(b, set(b, chronicle.Filling))
	w.ok(b, set(b, chronicle.Draining))
	w.refused(b, set(b, chronicle.Draining))
	w.refused(b, set(b, chronicle.Filling))
	w.refused(c, set(c, chronicle.Draining))
	also := set(c, chronicle.Draining)
	also.Also = true
	w.ok(c, also)
	w.ok(c, set(c, chronicle.Active))
	for r := range w.s.Pools[0].Ring.OwnedBy(b) {
		w.ok(b, chronicle.Close{Pool: w.s.Pools[0].Key, Range: r})
	}
	w.ok(c, set(c, chronicle.Draining))
	if d := w.s.Drainer(a); d == nil || d.ID != c || w.s.Drainer(c) != nil {
		t.Errorf("it is %v who drains", d)
	}
}

// What is said about zones at the end of a state is as it was written, or refused.
func TestDecodeZonesRefuses(t *testing.T) {
	w := found(t, a, b)
	plain := w.s.Encode()
	w.ok(b, chronicle.SetZone{Zone: "x"})
	tail := func(b ...byte) []byte { return append(slices.Clone(plain), b...) }
	for name, b := range map[string][]byte{
		"no zones at all":        tail(0, 0, 0, 0),
		"nothing behind the 0":   tail(0, 0, 0),
		"a place beyond":         tail(0, 0, 0, 1, 2, 1, 'x'),
		"an empty zone":          tail(0, 0, 0, 1, 1, 0),
		"a space":                tail(0, 0, 0, 1, 1, 1, ' '),
		"a zone of 300 bytes":    append(tail(0, 0, 0, 1, 1, 0xac, 2), make([]byte, 300)...),
		"twice the same":         tail(0, 0, 0, 2, 1, 1, 'x', 1, 1, 'y'),
		"a zone, and a rest":     tail(0, 0, 0, 1, 1, 1, 'x', 0),
		"more zones than follow": tail(0, 0, 0, 2, 1, 1, 'x'),
	} {
		if s, err := chronicle.DecodeState(b); err == nil {
			t.Errorf("%s is read as %v", name, s.Roster)
		}
	}
	if s, err := chronicle.DecodeState(tail(0, 0, 0, 1, 1, 1, 'x')); err != nil || s.Member(b).Zone != "x" {
		t.Errorf("a zone is not read: %v", err)
	}
	w.s.Member(a).Zone = "a b"
	if _, err := chronicle.DecodeState(w.s.Encode()); err == nil {
		t.Error("what is no zone is read")
	}
}
