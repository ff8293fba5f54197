package events

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

var seed = flag.Uint64("seed", 0, "of what is random; 0: a new one")

// TestAppendJSON compares what is written with what encoding/json writes: files
// and streams have had that form from the beginning.
func TestAppendJSON(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	for range 20000 {
		e := anyEvent(r)
		want, err := json.Marshal(&e)
		if err != nil {
			t.Fatalf("%v (-seed %d)", err, *seed)
		}
		got, err := e.AppendJSON([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("-seed %d:\ngot  %s, %v\nwant before%s", *seed, got, err, want)
		}
	}
}

// A time that JSON has no form for is an error, as it is for encoding/json.
func TestAppendJSONError(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
		someTime.In(time.FixedZone("", 24*60*60)),
	} {
		for _, e := range []Event{{Time: at}, {Holder: &Holder{Since: at}}} {
			if text, err := e.AppendJSON(nil); err == nil {
				t.Errorf("%v became %s", at, text)
			}
		}
	}
}

// anyEvent returns an event with anything in it that may be.
func anyEvent(r *rand.Rand) Event {
	words := []string{"", "", "web", "web.1.x", `a"b\c`, "<&>", "ä\u2028\u2029", "a\x00\x1f\x7f\n\t\b\f", "\xff\xfe", "host-b"}
	word := func() string { return words[r.IntN(len(words))] }
	addrs := []netip.Addr{{}, netip.MustParseAddr("10.1.0.9"), netip.MustParseAddr("fd00::9"), netip.MustParseAddr("::ffff:10.1.0.9"), netip.MustParseAddr(`fe80::1%<"e">`)}
	addr := func() netip.Addr { return addrs[r.IntN(len(addrs))] }
	pools := []netip.Prefix{{}, netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64"), netip.PrefixFrom(addrs[1], 33)}
	zones := []*time.Location{time.UTC, time.Local, time.FixedZone("", 5*60*60+30*60), time.FixedZone("", -9*60*60)}
	at := func() time.Time {
		if r.IntN(4) == 0 {
			return time.Time{}
		}
		return time.Unix(r.Int64N(1<<32), r.Int64N(3)*r.Int64N(1e9)).In(zones[r.IntN(len(zones))])
	}
	e := Event{
		ID: ID{r.Uint64() >> r.IntN(64), r.Uint64() >> r.IntN(64), r.Uint32() >> r.IntN(33)}, Time: at(), Kind: word(), Text: word(), Pool: pools[r.IntN(len(pools))],
		Address: addr(), Last: addr(), From: word(), To: word(), Peer: word(),
	}
	if r.IntN(3) > 0 {
		e.Holder = &Holder{Kind: word(), Container: word(), Name: word(), MAC: word(), Since: at()}
	}
	if r.IntN(8) == 0 {
		e.Problem = &ipam.Problem{Code: word(), Text: word()}
	}
	return e
}

// BenchmarkRead asks what it costs to read an event, and to write it down. A
// tenth of a durable call is accepted, some 5 µs.
func BenchmarkRead(b *testing.B) {
	for name, read := range map[string]func(*Log, ID) *Reader{"silent": (*Log).ReadSilent, "told": (*Log).Read} {
		b.Run(name, func(b *testing.B) {
			l := New(1, 0, MaxBatch)
			for i := range MaxBatch {
				l.Note(someTime, grant(i))
			}
			from, r := ID{}, read(l, ID{})
			var text []byte
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%MaxBatch != 0 {
					continue // the time is that of one
				}
				r.ring.next = from.Number + 1
				list, err := r.Kept()
				if err != nil || len(list) != MaxBatch {
					b.Fatalf("%d events, %v", len(list), err)
				}
				text = text[:0]
				for i := range list {
					if text, err = list[i].AppendJSON(text); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
