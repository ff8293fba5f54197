package gossip

import (
	"slices"
	"testing"
)

func TestSeedIndexesOfAList(t *testing.T) {
	for _, tt := range []struct {
		name string
		join []string
		want []string
	}{
		{"nothing", nil, nil},
		{"names", []string{"host-b", "host-a"}, []string{"host-a:7950", "host-b:7950"}},
		{"one host in many forms", []string{"Host-A", "host-a:7950", "host-a."}, []string{"host-a:7950"}},
		{"ports differ", []string{"a:1", "a:2"}, []string{"a:1", "a:2"}},
		{"addresses", []string{"10.0.0.2", "::ffff:10.0.0.2", "[::ffff:a00:2]:7950"}, []string{"10.0.0.2:7950"}},
		{"IPv6", []string{"fd00::2", "[fd00::2]", "[FD00:0::2]:7950", "[fd00::2]:1"}, []string{"[fd00::2]:1", "[fd00::2]:7950"}},
		{"what is no host", []string{"", ".", "a:b", "a:0", "a:65536", ":7950", "a b", "id/a:1", "a:1:2"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Seeds(tt.join)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if again := Seeds(got); !slices.Equal(again, got) {
				t.Errorf("the seeds of %q are %q", got, again)
			}
		})
	}
}

// TestListHash holds the hashes: all hosts of a list must get the same, also
// from other releases.
func TestListHash(t *testing.T) {
	for _, tt := range []struct {
		seeds []string
		want  uint64
	}{
		{nil, 0},
		{[]string{"host-a:7950"}, 0xdfb7ec51a25611f0},
		{[]string{"host-a:7950", "host-b:7950"}, 0x5db399e092f69a3c},
	} {
		if got := ListHash(tt.seeds); got != tt.want {
			t.Errorf("%q: got %#x, want %#x", tt.seeds, got, tt.want)
		}
	}
}
