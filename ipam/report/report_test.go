package report_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

var now = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)

var self, other, gone = peer.ID{1}, peer.ID{2}, peer.ID{3}

// picture is one of a peer, one of two, of which nothing is to be reported.
func picture() *report.Picture {
	member := func(id peer.ID, name peer.Name) chronicle.Member {
		return chronicle.Member{Founder: chronicle.Founder{ID: id, Name: name}, Phase: chronicle.Active}
	}
	return &report.Picture{
		Now: now, Self: self, Name: "host-a", Standing: peer.Ready, Rest: time.Minute,
		State: &chronicle.State{Slot: 7, Level: 2, Roster: []chronicle.Member{member(self, "host-a"), member(other, "host-b")}},
		Peers: map[peer.ID]report.Peer{
			self: {Name: "host-a", Live: true, Speaks: 2}, other: {Name: "host-b", Live: true, Speaks: 2}, gone: {Name: "host-c"},
		},
	}
}

// A problem exists in just the pictures that its row names, whatever else there is.
func TestProblems(t *testing.T) {
	evicted := func(p *report.Picture, forgotten bool) *chronicle.Gone {
		p.State.Former = []chronicle.Gone{{Member: chronicle.Member{Founder: chronicle.Founder{ID: gone}, Phase: chronicle.Active}, Forgotten: forgotten}}
		return &p.State.Former[0]
	}
	live := func(p *report.Picture, id peer.ID, is bool) {
		of := p.Peers[id]
		of.Live = is
		p.Peers[id] = of
	}
	for name, tt := range map[string]struct {
		change func(*report.Picture)
		want   string // codes, each with a text that its sentence contains
	}{
		"all is well":            {func(*report.Picture) {}, ""},
		"an invariant is broken": {func(p *report.Picture) { p.Own.Broken = errors.New("I2") }, "broken-invariant: I2"},
		"suspended":              {func(p *report.Picture) { p.Own.Suspended = "it is a copy" }, "suspended: because it is a copy"},
		"left":                   {func(p *report.Picture) { p.Standing = peer.Left }, "left: has left"},
		"left, and cut off":      {func(p *report.Picture) { p.Standing, p.Own.CutOff = peer.Left, true }, "left: has left"},
		"checking, and cut off":  {func(p *report.Picture) { p.Standing, p.Own.CutOff, p.Own.Answered = peer.Checking, true, 1 }, "checking: 1 host has answered"},
		"its database is lost": {func(p *report.Picture) {
			p.Standing, p.Own.Outside, p.Own.EngineHas = peer.Joining, peer.DatabaseLost, 3
		}, "database-lost: has 3 networks"},
		"it forms, and lost it":    {func(p *report.Picture) { p.Standing, p.Own.Outside = peer.Forming, peer.DatabaseLost }, "database-lost: "},
		"forming":                  {func(p *report.Picture) { p.Standing, p.Own.Founders, p.Own.FoundersMet = peer.Forming, 3, 1 }, "forming: reaches 1 of 3"},
		"outdated":                 {func(p *report.Picture) { p.Standing, p.Level = peer.Outdated, 3 }, "outdated: level 3 of the protocol, but the release on this host speaks at most 2"},
		"it looks first":           {func(p *report.Picture) { p.Own.Outside = peer.LooksFirst }, "joining: it looks for hosts"},
		"it waits for the engine":  {func(p *report.Picture) { p.Own.Outside = peer.AwaitsNetworks }, "joining: list of networks"},
		"its list has only itself": {func(p *report.Picture) { p.Own.Outside = peer.ListsNobody }, "joining: lists no other host"},
		"no cluster is found":      {func(p *report.Picture) { p.Own.Outside, p.Own.Met = peer.NotFound, 2 }, "joining: 2 hosts have answered"},
		"it waits to be admitted":  {func(p *report.Picture) { p.Own.Outside = peer.AwaitsAdmission }, "joining: waits to be admitted to"},
		"it was evicted":           {func(p *report.Picture) { p.Own.Outside = peer.AwaitsReturn }, "joining: keeps its addresses"},
		"cut off":                  {func(p *report.Picture) { p.Own.CutOff = true; live(p, other, false) }, "cut-off: away: host-b"},
		"the other is away":        {func(p *report.Picture) { live(p, other, false) }, "peer-unreachable: host-b; this host has the deciding vote"},
		"it is silent for a while": {func(p *report.Picture) {
			live(p, other, false)
			p.Others.Silent = report.Silence{Since: now, Ends: now.Add(time.Hour)}
		}, "peer-unreachable: host-b, silent since 2026-03-01 09:30 UTC, evicted by itself at 2026-03-01 10:30 UTC"},
		"away, while it checks":    {func(p *report.Picture) { p.Standing = peer.Checking; live(p, other, false) }, "checking: "},
		"no decision for a while":  {func(p *report.Picture) { p.Own.Undecided = 5 * time.Second }, "no-agreement: for 5s"},
		"its list has not come":    {func(p *report.Picture) { p.Own.Lists.Own = true }, "inventory-awaited: until its engine lists them"},
		"addresses of its former":  {func(p *report.Picture) { p.Own.Lists = report.Lists{Own: true, Owners: []peer.ID{gone}, Former: true} }, "inventory-awaited: its former self"},
		"addresses of a lost host": {func(p *report.Picture) { p.Own.Lists = report.Lists{Own: true, Owners: []peer.ID{gone}} }, "inventory-awaited: in the ranges of host-c"},
		"it and others are new":    {func(p *report.Picture) { p.Own.Lists = report.Lists{Reserved: true, Others: []peer.ID{other}} }, "inventory-awaited: still own | others-unlisted: like that of host-b"},
		"it started alone":         {func(p *report.Picture) { p.Own.BootedAlone = true }, "booted-alone: no majority"},
		"the other is older":       {func(p *report.Picture) { p.State.Level = 3 }, "older-release: does not speak: host-b"},
		"evicted, without a range": {func(p *report.Picture) { evicted(p, false) }, ""},
		"given up, and away":       {func(p *report.Picture) { evicted(p, true) }, ""},
		"given up, and there":      {func(p *report.Picture) { evicted(p, true); live(p, gone, true) }, "given-up-host: host-c runs"},
		"left, and there":          {func(p *report.Picture) { evicted(p, true).Phase = chronicle.Draining; live(p, gone, true) }, ""},
		"left, there, and warns": {func(p *report.Picture) {
			evicted(p, true).Phase = chronicle.Draining
			live(p, gone, true)
			p.Others.Warned = map[peer.ID]int{gone: 2}
		}, "given-up-host: 2 addresses that its containers use are set aside"},
		"another list of founders": {func(p *report.Picture) {
			p.Own.Founders, p.Others.Misfits = 3, map[peer.ID]wire.Formation{gone: {Size: 5}}
		}, "formation-mismatch: cluster of 5 hosts"},
		"another cluster":           {func(p *report.Picture) { p.Others.Foreign = [][16]byte{{0xab}} }, "foreign-cluster: ab000000"},
		"another state":             {func(p *report.Picture) { p.Others.Differs = map[peer.ID]uint64{other: 9} }, "differing-state: host-b had another state than the majority at slot 9"},
		"one zone of three decides": {func(p *report.Picture) { p.Others.Ruling = report.Ruling{Zone: "east", Votes: 4, Total: 7, Zones: 3} }, "zone-majority: hosts in zone east have 4 of 7 votes"},
		"hosts without a zone do":   {func(p *report.Picture) { p.Others.Ruling = report.Ruling{Votes: 4, Total: 7, Zones: 3} }, "zone-majority: hosts without a zone"},
		"a conflict":                {func(p *report.Picture) { p.Conflicts = []report.Conflict{{Text: "10.1.0.2 is used twice"}} }, "conflict: 10.1.0.2 is used twice"},
	} {
		p := picture()
		tt.change(p)
		s := p.Status()
		var want []string
		if tt.want != "" {
			want = strings.Split(tt.want, " | ")
		}
		if len(s.Problems) != len(want) {
			t.Errorf("%s: problems %+v, want %q", name, s.Problems, want)
			continue
		}
		for i, got := range s.Problems {
			code, part, _ := strings.Cut(want[i], ": ")
			if got.Code != code || !strings.Contains(got.Text, part) {
				t.Errorf("%s: problem %s: %q, want %s with %q", name, got.Code, got.Text, code, part)
			}
		}
	}
}

// The verdict is that of the gravest problem.
func TestVerdict(t *testing.T) {
	for want, o := range map[report.Verdict]report.Own{
		report.Fine:     {},
		report.Degraded: {BootedAlone: true},
		report.Failed:   {BootedAlone: true, Suspended: "it is a copy"},
	} {
		p := picture()
		p.Own = o
		if got := p.Status().Verdict; got != want {
			t.Errorf("%+v: verdict %s, want %s", o, got, want)
		}
	}
}

// pool is a /28 of which this peer has 4 addresses, host-b 4, host-c, which is lost, 2, and nobody 4. The first and the
// last are reserved.
func pool() report.Pool {
	p := &chronicle.Pool{Key: chronicle.PoolKey{Slot: 5}, CIDR: netip.MustParsePrefix("10.1.0.0/28"), Reserved: []chronicle.Reservation{
		{Range: addr.One(0), Kind: chronicle.KindNetwork}, {Range: addr.One(15), Kind: chronicle.KindBroadcast},
	}}
	p.Ring = ring.New(16, 1)
	s := space.New(16)
	for _, of := range []struct {
		owner      peer.ID
		start, end addr.Offset
	}{{ring.Reserved, 0, 1}, {self, 1, 5}, {other, 5, 9}, {gone, 9, 11}, {ring.Reserved, 15, 16}} {
		p.Ring.Assign(addr.Range{Start: of.start, End: of.end}, of.owner, 7)
	}
	s.Own(addr.Range{Start: 1, End: 5})
	return report.Pool{Pool: p, Space: s}
}

func claim(s *space.Space, o addr.Offset, kind space.Kind) {
	s.Claim(o, &space.Holder{Kind: kind, Ref: fmt.Sprint("holder-", o)}, now.Add(-time.Hour), nil)
}

// Each address has just one state. What another peer holds is what it has announced.
func TestPoolStatus(t *testing.T) {
	p, lan := picture(), pool()
	claim(lan.Space, 1, space.Container)
	claim(lan.Space, 2, space.Container)
	lan.Space.Free(2, now, &space.Freeing{})
	count := func() string {
		s := p.PoolStatus(&lan, true)
		if sum := s.Held + s.Resting + s.Ready + s.Free + s.Reserved + s.Quarantined; sum != s.Size {
			t.Errorf("states add up to %d addresses of %d", sum, s.Size)
		}
		return fmt.Sprintf("held %d (%d here), resting %d, ready %d (%d here), free %d, reserved %d, lost %d", s.Held, s.HeldHere, s.Resting, s.Ready, s.Mine, s.Free, s.Reserved, s.Quarantined)
	}
	if got, want := count(), "held 1 (1 here), resting 1, ready 6 (3 here), free 4, reserved 2, lost 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	lan.Spare = map[peer.ID]wire.Spare{other: {Free: 3, Resting: 2}}
	if got, want := count(), "held 2 (1 here), resting 3, ready 3 (3 here), free 4, reserved 2, lost 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var shares []string
	for _, s := range p.PoolStatus(&lan, true).Shares {
		shares = append(shares, fmt.Sprintf("%s %d of %d, %v", s.Owner[:2], s.Held, s.Owned, s.Announced))
	}
	if want := []string{"01 1 of 4, true", "02 1 of 4, true", "03 0 of 2, false"}; !slices.Equal(shares, want) {
		t.Errorf("shares %q, want %q", shares, want)
	}
}

// What is excluded at once is one range, also where it was reserved in pieces; what is for another reason is one of its own.
func TestExcludedRanges(t *testing.T) {
	p, lan := picture(), pool()
	lan.Gateway = addr.Nth(lan.CIDR, 1)
	size := addr.Offset(lan.Ring.Size())
	everything := []ring.Token{{Start: 0, Owner: ring.Reserved}}
	var err error
	if lan.Ring, err = ring.FromTokens(addr.Count(size), everything); err != nil {
		t.Fatal(err)
	}
	lan.Reserved = []chronicle.Reservation{{Range: addr.Range{Start: 0, End: 1}, Kind: chronicle.KindNetwork}}
	for i, note := range []string{"a", "a", "b"} {
		lan.Reserved = append(lan.Reserved, chronicle.Reservation{Range: addr.Range{Start: addr.Offset(1 + i), End: addr.Offset(2 + i)}, Kind: chronicle.KindExcluded, Note: note})
	}
	lan.Reserved = append(lan.Reserved, chronicle.Reservation{Range: addr.Range{Start: 4, End: size}, Kind: chronicle.KindExcluded, Note: "b"})
	s := p.PoolStatus(&lan, true)
	var got []string
	for _, r := range s.Holders {
		got = append(got, fmt.Sprintf("%v-%v %s %s", r.Start, r.End, r.Kind, r.Note))
	}
	nth := func(o addr.Offset) netip.Addr { return addr.Nth(lan.CIDR, o) }
	want := []string{
		fmt.Sprintf("%v-%v network address ", nth(0), nth(0)), fmt.Sprintf("%v-%v excluded a", nth(1), nth(2)), fmt.Sprintf("%v-%v excluded b", nth(3), nth(size-1)),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.Gateway != nth(1) {
		t.Errorf("the gateway is %v", s.Gateway)
	}
}

// A pool is reported where this peer has containers in it, and once another device answers for an address.
func TestPoolProblems(t *testing.T) {
	codes := func(change func(p *report.Picture, lan *report.Pool)) (out []string) {
		p, lan := picture(), pool()
		change(p, &lan)
		p.Pools = []report.Pool{lan}
		for _, problem := range p.Status().Problems {
			out = append(out, problem.Code)
		}
		return out
	}
	fill := func(lan *report.Pool, owner peer.ID, kind space.Kind) {
		lan.Ring.Assign(addr.Range{Start: 5, End: 15}, owner, 8)
		for o := range addr.Offset(4) {
			claim(lan.Space, 1+o, kind)
		}
	}
	for name, tt := range map[string]struct {
		change func(p *report.Picture, lan *report.Pool)
		want   []string
	}{
		"some are free":                 {func(_ *report.Picture, lan *report.Pool) { claim(lan.Space, 1, space.Container) }, nil},
		"the last are another's":        {func(_ *report.Picture, lan *report.Pool) { fill(lan, other, space.Container) }, []string{"short-of-space"}},
		"all are quarantined":           {func(_ *report.Picture, lan *report.Pool) { fill(lan, gone, space.Container) }, []string{"pool-full"}},
		"the host has all, and no more": {func(_ *report.Picture, lan *report.Pool) { fill(lan, gone, space.Host) }, nil},
		"a device answers": {func(_ *report.Picture, lan *report.Pool) {
			claim(lan.Space, 1, space.Stranger)
			lan.Devices = map[addr.Offset]time.Time{1: now}
		}, []string{"stranger"}},
	} {
		if got := codes(tt.change); !slices.Equal(got, tt.want) {
			t.Errorf("%s: problems %q, want %q", name, got, tt.want)
		}
	}
}

// What becomes of an address, from where it is.
func TestExplain(t *testing.T) {
	p, lan := picture(), pool()
	claim(lan.Space, 1, space.Container)
	claim(lan.Space, 2, space.Container)
	lan.Space.Free(2, now, &space.Freeing{})
	lan.Missing = map[addr.Offset]time.Time{1: now}
	p.Pools = []report.Pool{lan}
	for a, want := range map[string]string{
		"10.1.0.0":  "is the pool's network address | ",
		"10.1.0.1":  "is held by container holder-1 on host-a since 2026-03-01 08:30 UTC | nothing: it is freed when the engine's next list lacks it, too",
		"10.1.0.2":  "rests until 2026-03-01 09:31 UTC; it was last held by container holder-2, until 2026-03-01 09:30 UTC | ",
		"10.1.0.3":  "is ready, and was never handed out by host-a, as far as it remembers | ",
		"10.1.0.5":  "is in a range of host-b, which knows whether it is in use | run ringlet explain 10.1.0.5 on that host",
		"10.1.0.9":  "may be in use on host-c, which was lost and evicted | bring that host back, or release its addresses with ringlet forget host-c if it is gone for good",
		"10.1.0.11": "is free, and owned by no host | ",
	} {
		e, err := p.Explain(netip.MustParseAddr(a))
		if got := e.Verdict + " | " + e.Next; got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", a, got, err, want)
		}
	}
	p.Conflicts = []report.Conflict{{Address: netip.MustParseAddr("10.1.0.3"), Pool: lan.CIDR, Text: "two have it", Next: "stop one"}}
	if e, err := p.Explain(netip.MustParseAddr("10.1.0.3")); e.Conflict != "two have it" || e.Next != "stop one" || err != nil {
		t.Errorf("in a conflict: %+v, %v", e, err)
	}
	if _, err := p.Explain(netip.MustParseAddr("10.2.0.1")); err == nil {
		t.Error("an address of no pool is explained")
	}
}

// Refusals are bounded, and the same one to the same asker is one.
func TestRefusals(t *testing.T) {
	p := picture()
	p.Pools = []report.Pool{pool()}
	a := netip.MustParseAddr("10.1.0.1")
	for i := range 3 {
		p.Refusals = p.Refusals.With(now.Add(time.Duration(i)*time.Second), a, "web", errors.New("it is in use"))
	}
	p.Refusals = p.Refusals.With(now, a, "db", errors.New("it is in use"))
	e, err := p.Explain(a)
	if err != nil || len(e.Refusals) != 2 || e.Refusals[0].To != "db" || e.Refusals[1].Times != 3 || !e.Refusals[1].Last.Equal(now.Add(2*time.Second)) {
		t.Errorf("refusals %+v, %v", e.Refusals, err)
	}
	for i := range 1000 {
		p.Refusals = p.Refusals.With(now, a, fmt.Sprint(i), errors.New("it is in use"))
	}
	if n := len(p.Refusals); n > 256 {
		t.Errorf("%d refusals are kept", n)
	}
}

// A database that was read back is told from the peer that wrote it by its records and by its networks.
func TestDifferences(t *testing.T) {
	two := func() (a, b *report.Picture) {
		a, b = picture(), picture()
		a.Pools, b.Pools = []report.Pool{pool()}, []report.Pool{pool()}
		return a, b
	}
	for name, tt := range map[string]struct {
		change func(disk *report.Picture)
		want   string
	}{
		"nothing":  {func(*report.Picture) {}, "[]"},
		"a record": {func(d *report.Picture) { claim(d.Pools[0].Space, 1, space.Client) }, "[the database has a record of 10.1.0.1, and this peer none]"},
		"a slot":   {func(d *report.Picture) { d.State.Slot = 6 }, "the database stands at slot 6"},
		"the ID":   {func(d *report.Picture) { d.Self = other }, "the database is of peer 02"},
	} {
		a, disk := two()
		tt.change(disk)
		if got := fmt.Sprint(a.Differences(disk)); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
