package replica

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam/peer"
)

// world is some peers whose messages are lost, doubled, and late, and what each
// of them has said itself.
type world struct {
	now   time.Time
	rs    []*Replica
	boots []peer.Boot
	said  []map[string]string
	post  []letter
}

type letter struct {
	to, from int
	m        Message
}

func (w *world) say(from, to int, m Message) { w.post = append(w.post, letter{to, from, m}) }

func (w *world) deliver(i int) {
	l := w.post[i]
	text := Encode(l.m)
	m, err := Decode(text)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", l.m, err))
	}
	answers, news := w.rs[l.to].Take(m, w.now)
	for _, answer := range answers {
		w.say(l.to, l.from, answer)
	}
	if p, ok := m.(Pages); ok && news && len(p.Rest) == 0 {
		w.say(l.to, (l.to+1)%len(w.rs), p) // passes it on, as broadcasts are
	}
}

// Whatever becomes of messages on their way: peers that hear of each other in
// the end show the same, which is what each of them says and nothing else.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "peers")
		w := &world{now: someTime}
		for i := range n {
			w.rs, w.boots, w.said = append(w.rs, started(i, 1, w.now)), append(w.boots, 1), append(w.said, map[string]string{})
		}
		one := rapid.IntRange(0, n-1)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				i := one.Draw(t, "who")
				before := w.rs[i].Seq()
				for range rapid.IntRange(1, 40).Draw(t, "changes") {
					key := fmt.Sprint("k", rapid.IntRange(0, 12).Draw(t, "key"))
					if rapid.Bool().Draw(t, "remove") {
						w.rs[i].Remove(key)
						delete(w.said[i], key)
						continue
					}
					size := rapid.SampledFrom([]int{1, 50, 20000}).Draw(t, "size")
					value := fmt.Sprintf("%0*d", size, w.rs[i].Seq())
					w.rs[i].Set(key, []byte(value))
					w.said[i][key] = value
				}
				if m, ok := w.rs[i].Since(before, 1100, w.now); ok {
					w.say(i, one.Draw(t, "broadcast to"), m)
				}
			},
			"forget removals": func(t *rapid.T) {
				s := w.rs[one.Draw(t, "who")].own
				s.compact()
				s.floor = s.seq
			},
			"compare": func(t *rapid.T) {
				i := one.Draw(t, "who")
				w.say(i, one.Draw(t, "with"), w.rs[i].Hashes(rapid.Bool().Draw(t, "leases")))
			},
			"deliver": func(t *rapid.T) {
				if len(w.post) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(w.post)-1).Draw(t, "which")
				w.deliver(i)
				switch rapid.IntRange(0, 9).Draw(t, "fate") {
				case 0: // it will come again
				default:
					w.post = append(w.post[:i:i], w.post[i+1:]...)
				}
			},
			"lose": func(t *rapid.T) {
				if len(w.post) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(w.post)-1).Draw(t, "which")
				w.post = append(w.post[:i:i], w.post[i+1:]...)
			},
			"restart": func(t *rapid.T) {
				i := one.Draw(t, "who")
				w.boots[i]++
				w.rs[i], w.said[i] = started(i, w.boots[i], w.now), map[string]string{}
			},
			"wait": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
				for _, r := range w.rs {
					r.Tick(w.now)
				}
			},
			"renew": func(t *rapid.T) { w.rs[one.Draw(t, "who")].Renew(w.now) },
			// With one number there is one content, at any time.
			"": func(t *rapid.T) {
				for _, a := range w.rs {
					for _, b := range w.rs {
						for id, s := range a.sections {
							o := b.sections[id]
							if id == peer.None || o == nil || o.mark() != s.mark() {
								continue
							}
							if diff := cmp.Diff(values(s), values(o)); diff != "" {
								t.Fatalf("two replicas have %v up to %v (-%v +%v)\n%s", id.Short(), s.mark(), a.own.origin.Short(), b.own.origin.Short(), diff)
							}
						}
					}
				}
			},
		})

		// Now all messages arrive.
		w.now = w.now.Add(giveUp)
		want := map[string]string{}
		for i, r := range w.rs {
			r.Renew(w.now)
			for key, value := range w.said[i] {
				want[fmt.Sprint(key, " of ", r.own.origin.Short(), r.own.origin.String()[28:])] = value
			}
		}
		for round := 0; ; round++ {
			if round > 3*n {
				t.Fatal("they do not come to agree")
			}
			w.now = w.now.Add(giveUp)
			w.post = nil
			for i := range n {
				w.say(i, (i+1)%n, w.rs[i].Hashes(true))
			}
			for steps := 0; len(w.post) > 0; steps++ {
				if steps > 1e5 {
					t.Fatal("an exchange has no end")
				}
				w.deliver(0)
				w.post = w.post[1:]
			}
			if agree(w) {
				break
			}
		}
		for i, r := range w.rs {
			r.Tick(w.now)
			if diff := cmp.Diff(want, content(r, w.now)); diff != "" {
				t.Fatalf("peer %d (-said +shown)\n%s", i, diff)
			}
		}
	})
}

func agree(w *world) bool {
	for _, r := range w.rs {
		if r.Digest() != w.rs[0].Digest() || r.leases != w.rs[0].leases {
			return false
		}
	}
	return true
}

func values(s *section) map[string]string {
	out := map[string]string{}
	for e := range s.changes.After(0) {
		if !e.Overtaken() && !e.Removal() {
			out[e.Key()] = string(e.Value())
		}
	}
	return out
}

// FuzzDecode reads hostile bytes, and gives what can be read to a replica.
func FuzzDecode(f *testing.F) {
	now := someTime
	a, b := started(1, 1, now), started(2, 1, now)
	a.Set("x", []byte("1"))
	a.Set("y", []byte("2"))
	a.Remove("y")
	m, _ := a.Since(0, 1000, now)
	f.Add(Encode(m))
	f.Add(Encode(a.Hashes(true)))
	answers, _ := b.Take(a.Hashes(false), now)
	f.Add(Encode(answers[0]))
	answers, _ = b.Take(Vector{Buckets: 1 << 1, Marks: a.marks(1<<1, now)}, now)
	f.Add(Encode(answers[0]))
	f.Add(Encode(Clear{Serial: 7, Key: "ringlet/state/", Below: true}))
	f.Add(Encode(Question{Serial: 7, Address: netip.MustParseAddr("fd00:50::7"), At: someTime.Add(time.Nanosecond)}))
	f.Add(Encode(Question{Serial: 7, Address: netip.MustParseAddr("10.50.0.7"), At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}))
	f.Add(Encode(Answer{Serial: 7, Text: []byte("{}")}))
	f.Add(Encode(Answer{Serial: 7}))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(Encode(m))
		if err != nil {
			t.Fatalf("%#v cannot be read again: %v", m, err)
		}
		if diff := cmp.Diff(m, again, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("(-read +read again)\n%s", diff)
		}
		r := started(2, 1, now)
		r.Set("z", []byte("3"))
		answers, _ := r.Take(m, now)
		for _, answer := range answers {
			if _, err := Decode(Encode(answer)); err != nil {
				t.Errorf("answer %#v: %v", answer, err)
			}
		}
		r.Tick(now.Add(Lease))
		if got := r.Get("z", now); len(got) < 1 {
			t.Error("an own key is gone")
		}
	})
}
