package sentence_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

func TestWords(t *testing.T) {
	long := strings.Repeat("ab", 32)
	names := strings.Split("a b c d e f g h i j", " ")
	tests := []struct{ got, want string }{
		{sentence.Who(space.Holder{Kind: space.Container, Name: "web", Ref: long}), "container web (abababababab)"},
		{sentence.Who(space.Holder{Kind: space.Container, Name: "web"}), "container web"},
		{sentence.Who(space.Holder{Kind: space.Container, Ref: "4f3a"}), "container 4f3a"},
		{sentence.Who(space.Holder{Kind: space.Container, MAC: [6]byte{2, 0, 0, 0, 0, 9}}), "a container with MAC 02:00:00:00:00:09"},
		{sentence.Who(space.Holder{Kind: space.Container}), "a container"},
		{sentence.Who(space.Holder{Kind: space.Client, Ref: "lab bench"}), `"lab bench"`},
		{sentence.Word("printer-3"), "printer-3"},
		{sentence.Word("lab bench"), "'lab bench'"},
		{sentence.Word("it's"), `'it'\''s'`},
		{sentence.Word(""), "''"},
		{sentence.List(names[:8]), "a, b, c, d, e, f, g, h"},
		{sentence.List(names), "a, b, c, d, e, f, g, h and 2 more"},
		{sentence.Subnets([]netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16")}), "10.1.0.0/16, 10.2.0.0/16"},
		{sentence.Shares(1, sentence.InUse(1)), "of 1 address 1 is in use"},
		{sentence.Shares(4, sentence.InUse(4), sentence.Lost(0)), "all 4 addresses are in use"},
		{sentence.Shares(4, sentence.InUse(1), sentence.Lost(3)), "of 4 addresses 1 is in use and 3 are quarantined for evicted hosts"},
		{sentence.Shares(9, sentence.InUse(2), sentence.Lost(3), sentence.Withheld(4)), "of 9 addresses 2 are in use, 3 are quarantined for evicted hosts, and 4 are reserved"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// What this host has in a pool is the reason that a subnet cannot overlap it. Where that is nothing, the pool can go.
func TestPoolOverlaps(t *testing.T) {
	p := &chronicle.Pool{CIDR: netip.MustParsePrefix("10.50.0.0/24")}
	for _, tt := range []struct {
		networks int
		held     uint64
		want     string
	}{
		{0, 0, "remove it first with ringlet pool rm 10.50.0.0/24"},
		{2, 0, "which has 2 networks: "},
		{0, 1, "which has 1 address in use: "},
		{2, 7, "which has 7 addresses in use: "},
	} {
		err := sentence.PoolOverlaps(netip.MustParsePrefix("10.50.0.0/16"), p, tt.networks, tt.held)
		if !strings.Contains(err.Error(), tt.want) || !errors.Is(err, sentence.ErrPoolOverlap) {
			t.Errorf("%d networks, %d held: %v", tt.networks, tt.held, err)
		}
	}
}

// The code of an error is that of the sentence in it.
func TestCode(t *testing.T) {
	for want, err := range map[string]error{
		"pool-not-found": fmt.Errorf("alloc: %w", sentence.NoPool("lab")),
		"not-ready":      sentence.NoAgreement("host-a", nil),
		"unreachable":    sentence.NoAgreement("host-a", []string{"host-b"}),
		"internal":       errors.New("disk full"),
	} {
		if got := sentence.Code(err); got != want {
			t.Errorf("%v: code %q, want %q", err, got, want)
		}
	}
}
