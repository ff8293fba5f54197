package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/peer"
)

var someTime = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func idOf(n int) peer.ID { return peer.ID{0: 1, 14: byte(n >> 8), 15: byte(n)} }

// started returns the replica of the n-th peer with a lease.
func started(n int, boot peer.Boot, now time.Time) *Replica {
	r := New(idOf(n), boot)
	r.Renew(now)
	return r
}

// content is what a replica shows: value by key and peer.
func content(r *Replica, now time.Time) map[string]string {
	out := map[string]string{}
	list, more := r.List("", "", 1<<30, 1<<30, now)
	if more {
		panic("there is a limit")
	}
	for _, rec := range list {
		out[rec.Key+" of "+rec.Origin.Short()+rec.Origin.String()[28:]] = string(rec.Value)
	}
	return out
}

// talk has a begin an exchange with b, in which nothing is lost, and returns
// how many messages and bytes it took. Every message goes through its encoding.
func talk(t *testing.T, a, b *Replica, leases bool, now time.Time) (messages, size int) {
	t.Helper()
	type letter struct {
		to, from *Replica
		m        Message
	}
	queue := []letter{{b, a, a.Hashes(leases)}}
	for len(queue) > 0 {
		l := queue[0]
		queue = queue[1:]
		text := Encode(l.m)
		messages, size = messages+1, size+len(text)
		if len(text) > MaxMessage {
			t.Fatalf("a %T has %d bytes", l.m, len(text))
		}
		m, err := Decode(text)
		if err != nil {
			t.Fatalf("%T: %v", l.m, err)
		}
		answers, _ := l.to.Take(m, now)
		for _, answer := range answers {
			queue = append(queue, letter{l.from, l.to, answer})
		}
		if messages > 1e5 {
			t.Fatal("an exchange has no end")
		}
	}
	return messages, size
}

// same fails the test unless two replicas show the same.
func same(t *testing.T, a, b *Replica, now time.Time) {
	t.Helper()
	if diff := cmp.Diff(content(a, now), content(b, now)); diff != "" {
		t.Fatalf("(-%v +%v)\n%s", a.own.origin.Short(), b.own.origin.Short(), diff)
	}
	if a.Digest() != b.Digest() {
		t.Fatal("the content is the same, the digests differ")
	}
}

func TestExchange(t *testing.T) {
	now := someTime
	a, b := started(1, 1, now), started(2, 1, now)
	for i := range 3000 {
		a.Set(fmt.Sprintf("ip/%04d", i), fmt.Appendf(nil, `{"name":"c%d"}`, i))
	}
	b.Set("node/b", []byte("{}"))
	talk(t, a, b, false, now)
	same(t, a, b, now)
	if got := len(content(b, now)); got != 3001 {
		t.Fatalf("%d keys", got)
	}

	// A few changes are a few bytes, a removal among them.
	a.Set("ip/0007", []byte(`{"name":"x"}`))
	a.Remove("ip/0008")
	messages, size := talk(t, b, a, false, now)
	same(t, a, b, now)
	if messages > 4 || size > 1000 {
		t.Errorf("two changes took %d messages, %d bytes", messages, size)
	}
	if rec := b.Get("ip/0008", now); rec != nil {
		t.Errorf("what was removed is there: %v", rec)
	}

	// More removals than are remembered: the whole section.
	for i := range 2000 {
		a.Remove(fmt.Sprintf("ip/%04d", i))
	}
	for i := range 4000 { // makes the removals old
		a.Set("ip/2999", fmt.Appendf(nil, "%d", i))
	}
	if a.own.floor == 0 {
		t.Fatal("all removals are remembered, so this tests nothing")
	}
	talk(t, b, a, false, now)
	same(t, a, b, now)
}

// What begins, ends and changes is told once and in the end agrees with what
// is there.
func TestEvents(t *testing.T) {
	now := someTime
	a, b := started(1, 1, now), started(2, 1, now)
	seen := map[string]string{}
	follow := func(want ...Event) {
		t.Helper()
		got := b.Events()
		for _, e := range got {
			if seen[e.Key] = string(e.Value); e.Value == nil {
				delete(seen, e.Key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		all := map[string]string{}
		list, _ := b.List("", "", 100, 1<<30, now)
		for _, rec := range list {
			all[rec.Key] = string(rec.Value)
		}
		if diff := cmp.Diff(all, seen); diff != "" {
			t.Fatalf("who follows knows (-there +known)\n%s", diff)
		}
	}
	one, two := []byte("1"), []byte("2")
	a.Set("x", one)
	a.Set("y", one)
	a.Remove("y")
	talk(t, a, b, false, now)
	follow(Event{"x", one, idOf(1)})
	a.Set("x", two)
	a.Set("z", one)
	a.Set("short-lived", one)
	a.Remove("short-lived")
	talk(t, a, b, false, now)
	follow(Event{"x", two, idOf(1)}, Event{"z", one, idOf(1)})
	b.SetAgreed("pool", one)
	follow(Event{"pool", one, peer.None})

	a = started(1, 2, now) // a new start, which does not have z any more
	a.Set("x", two)
	talk(t, a, b, false, now)
	follow(Event{"z", nil, idOf(1)})

	now = now.Add(Lease)
	b.Tick(now)
	follow(Event{"x", nil, idOf(1)})
	a.Renew(now)
	b.Renew(now)
	talk(t, a, b, false, now)
	follow(Event{"x", two, idOf(1)})
	b.Forget()
	follow(Event{"x", nil, idOf(1)})
}

// A lease ends everywhere at once, whatever the clocks show; one renewal brings
// all back, without the section being sent again.
func TestLease(t *testing.T) {
	skew := []time.Duration{0, 24 * time.Hour, -24 * time.Hour}
	at := func(i int, passed time.Duration) time.Time { return someTime.Add(skew[i] + passed) }
	var rs []*Replica
	for i := range skew {
		rs = append(rs, started(i+1, 1, at(i, 0)))
	}
	for i := range 2000 {
		rs[0].Set(fmt.Sprint("key", i), []byte("some value of it"))
	}
	// meet has the peers after the first compare, each by its own clock.
	meet := func(a, b int, passed time.Duration, leases bool) (size int) {
		ma := []Message{rs[a].Hashes(leases)}
		for turn, to := 0, b; len(ma) > 0; turn, to = turn+1, a+b-to {
			var next []Message
			for _, m := range ma {
				size += len(Encode(m))
				answers, _ := rs[to].Take(m, at(to, passed))
				next = append(next, answers...)
			}
			ma = next
		}
		return size
	}
	for m := time.Duration(0); m <= 10*time.Minute; m += 5 * time.Minute {
		rs[1].Renew(at(1, m))
		rs[2].Renew(at(2, m))
		meet(1, 2, m, true)
		if m == 0 {
			meet(0, 1, m, false)
			meet(1, 2, m, false)
		}
	}
	has := func(passed time.Duration) (out []int) {
		for i, r := range rs[1:] {
			r.Tick(at(i+1, passed))
			list, _ := r.List("key", "", 1<<20, 1<<30, at(i+1, passed))
			out = append(out, len(list))
		}
		return out
	}
	if got := has(Lease - time.Second); got[0] != 2000 || got[1] != 2000 {
		t.Fatalf("before its end the lease shows %v keys", got)
	}
	if got := has(Lease); got[0] != 0 || got[1] != 0 {
		t.Fatalf("at its end the lease shows %v keys", got)
	}
	rs[0].Renew(at(0, Lease+time.Minute))
	rs[2].Renew(at(2, Lease+time.Minute))
	if size := meet(0, 1, Lease+time.Minute, false) + meet(1, 2, Lease+time.Minute, false); size > 3000 {
		t.Errorf("a renewal took %d bytes", size)
	}
	if got := has(Lease + time.Minute); got[0] != 2000 || got[1] != 2000 {
		t.Errorf("after a renewal there are %v keys", got)
	}
	// What is kept out of sight goes in the end.
	rs[1].Tick(at(1, 2*Lease+time.Minute))
	rs[1].Tick(at(1, 2*Lease+time.Minute+keep))
	if len(rs[1].sections) != 3 {
		t.Errorf("%d sections are left, of which three are its own", len(rs[1].sections))
	}
}

// A page that ends where its source has left out what is overtaken is no state
// that ever was: nothing of it shows before the rest is there.
func TestNothingByHalves(t *testing.T) {
	now := someTime
	a, b, c := started(1, 1, now), started(2, 1, now), started(3, 1, now)
	long := make([]byte, MaxValue)
	a.Set("first", []byte("old"))
	talk(t, a, b, false, now)
	talk(t, a, c, false, now)
	a.Set("first", []byte("middle")) // c will know up to here
	a.Set("second", long)
	talk(t, a, c, false, now)
	a.Set("third", long)
	a.Set("fourth", long)
	a.Set("first", []byte("new"))

	pages, _ := a.Take(Want{At: []Position{b.sections[idOf(1)].position(now)}}, now)
	page := pages[0].(Pages)
	if p := page.Parts[0]; p.To == p.Head || len(p.Puts) == 0 {
		t.Fatalf("all came in one page: up to %d of %d", p.To, p.Head)
	}
	b.Take(page, now)
	if got := content(b, now); got["first of "+idOf(1).Short()+idOf(1).String()[28:]] != "old" || len(got) != 1 {
		t.Fatalf("half a change is seen: %d keys", len(got))
	}
	now = now.Add(giveUp) // a is gone, c has less than a said
	talk(t, b, c, false, now)
	same(t, b, c, now)
}

// Nobody else can write what a peer says, nor an earlier start of it.
func TestSingleWriter(t *testing.T) {
	now := someTime
	a, b := started(1, 2, now), started(2, 1, now)
	a.Set("x", []byte("true"))
	talk(t, a, b, false, now)
	forged := func(origin peer.ID, boot peer.Boot) Pages {
		return Pages{Parts: []Part{{
			Origin: origin, Boot: boot, Whole: true, To: 100, Head: 100, Renewal: 100, Left: Lease,
			Puts: []Put{{Seq: 100, Key: "x", Value: []byte("false")}},
		}}}
	}
	for _, m := range []Pages{forged(idOf(2), 9), forged(idOf(1), 1), forged(peer.None, 1)} {
		if _, news := b.Take(m, now); news {
			t.Errorf("%v was taken in", m)
		}
	}
	same(t, a, b, now)
}

func TestLimits(t *testing.T) {
	now := someTime
	r := started(1, 1, now)
	for _, c := range []struct {
		key   string
		value []byte
	}{{"", []byte("v")}, {"k", nil}, {"k", make([]byte, MaxValue+1)}, {string(make([]byte, MaxKey+1)), []byte("v")}} {
		if r.Set(c.key, c.value) {
			t.Errorf("a key of %d bytes with %d was taken", len(c.key), len(c.value))
		}
	}
	for i := range 3 * MaxOrigins {
		r.section(peer.ID{1: byte(i >> 16), 2: byte(i >> 8), 3: byte(i), 4: 1}, 1, now)
	}
	if len(r.sections) > MaxOrigins {
		t.Errorf("%d peers are known", len(r.sections))
	}
	if got := r.own.changes.Len(); got != 0 {
		t.Errorf("%d changes", got)
	}
	for i := range 100000 {
		r.Set("k", fmt.Append(nil, i))
		r.Remove("k")
	}
	if got := r.own.changes.Len(); got > 2*maxRemovals+2 {
		t.Errorf("the log has %d changes for no key", got)
	}
}

// Pages of a list are the list.
func TestList(t *testing.T) {
	now := someTime
	a, b := started(1, 1, now), started(2, 1, now)
	for i := range 100 {
		a.Set(fmt.Sprintf("a/%03d", i), []byte("1"))
		b.Set(fmt.Sprintf("a/%03d", 2*i), []byte("2"))
		b.Set(fmt.Sprintf("b/%03d", i), []byte("3"))
	}
	talk(t, a, b, false, now)
	all, more := b.List("a/", "", 1000, 1<<30, now)
	if len(all) != 200 || more {
		t.Fatalf("%d records, more: %v", len(all), more)
	}
	var got []Record
	for after, more := "", true; more; {
		var page []Record
		page, more = b.List("a/", after, 1+rand.IntN(20), 1<<30, now)
		got = append(got, page...)
		after = page[len(page)-1].Key
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("(-at once +in pages)\n%s", diff)
	}
	if two := b.Get("a/002", now); len(two) != 2 || two[0].Origin != idOf(1) || two[1].Origin != idOf(2) {
		t.Errorf("a key of two peers is %v", two)
	}
}

// Keys of other clusters are shown, sent to nobody, and bounded.
func TestForeign(t *testing.T) {
	now := time.Unix(1, 0)
	r := New(peer.ID{1}, 1)
	r.Renew(now)
	sum := r.Digest()
	const key = "ringlet/state/nodes/v1/office/a"
	if !r.SetForeign(key, []byte(`{}`)) || r.SetForeign(key, make([]byte, MaxValue+1)) || r.SetForeign("", []byte(`{}`)) {
		t.Error("a key was refused, or one without an end was not")
	}
	if got := r.Get(key, now); len(got) != 1 || got[0].Origin != Foreign || string(got[0].Value) != `{}` {
		t.Errorf("shown as %+v", got)
	}
	if r.Digest() != sum || len(r.serve(Want{At: []Position{{Origin: Foreign, Boot: 1}}}, now).Parts) > 0 || r.section(Foreign, 1, now) != nil {
		t.Error("a foreign key is for other peers, or they may send some")
	}
	for i := 0; r.SetForeign(fmt.Sprint(key, i), make([]byte, MaxValue)); i++ {
		if i > 2*MaxForeignBytes/MaxValue {
			t.Fatal("there is no end of them")
		}
	}
	for _, key := range r.ForeignKeys() {
		r.RemoveForeign(key)
	}
	if len(r.ForeignKeys()) > 0 || len(r.Get(key, now)) > 0 {
		t.Error("foreign keys are left")
	}
}
