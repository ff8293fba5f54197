package peer_test

import (
	"fmt"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

func TestParse(t *testing.T) {
	id := peer.ID{0xab, 1, 2, 15: 0xff}
	if back, err := peer.Parse(id.String()); err != nil || back != id {
		t.Errorf("%v comes back as %v, %v", id, back, err)
	}
	for _, s := range []string{"", "ab", id.String() + "0", "z" + id.String()[1:]} {
		if got, err := peer.Parse(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b peer.ID
		want int
	}{{peer.ID{1}, peer.ID{2}, -1}, {peer.ID{2}, peer.ID{1, 9}, 1}, {peer.ID{15: 1}, peer.ID{15: 1}, 0}} {
		if got := c.a.Compare(c.b); got != c.want {
			t.Errorf("%v and %v: %d", c.a, c.b, got)
		}
	}
}

func ExampleID_Short() {
	id, err := peer.Parse("4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c")
	fmt.Println(id.Short(), err)
	// Output: 4f3a2b1c <nil>
}
