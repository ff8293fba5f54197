package space_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

func Example() {
	pool := netip.MustParsePrefix("10.50.0.0/24")
	s := space.New(addr.Size(pool))
	s.Own(addr.Range{Start: 16, End: 32}) // the ring says so

	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	web := space.Holder{Kind: space.Container, Name: "web-1", Key: space.KeyOf("n", "web-1")}
	g, _ := s.Take(addr.Whole(pool), &web, now, time.Minute, nil)
	fmt.Println(web.Name, "takes", addr.Nth(pool, g.Offset))

	s.Free(g.Offset, now, &space.Freeing{})
	other, _ := s.Take(addr.Whole(pool), &space.Holder{Name: "db-1"}, now, time.Minute, nil)
	fmt.Println("db-1 takes", addr.Nth(pool, other.Offset), "while the first one rests")

	if t := s.Find(web.Key); t.IsFormer {
		_, outcome := s.Claim(t.Former, &web, now, nil)
		fmt.Println(web.Name, "comes back:", addr.Nth(pool, t.Former), outcome)
	}
	fmt.Println(s.Held(), "held,", s.Unused(), "of", s.Owned(), "never used")
	// Output:
	// web-1 takes 10.50.0.16
	// db-1 takes 10.50.0.17 while the first one rests
	// web-1 comes back: 10.50.0.16 taken
	// 2 held, 14 of 16 never used
}
