package status

import (
	"maps"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam"
)

// sameNames returns what to tell an operator of hosts that have the same name; false if there are none.
func sameNames(peers []ipam.PeerStatus) (ipam.Problem, bool) {
	hosts := map[string]int{}
	for _, p := range peers {
		if p.State != "evicted" {
			hosts[p.Name]++
		}
	}
	maps.DeleteFunc(hosts, func(_ string, n int) bool { return n < 2 })
	if len(hosts) == 0 {
		return ipam.Problem{}, false
	}
	return ipam.Problem{
		Code: "same-name", Level: string(ipam.Degraded), Text: "several hosts have the same name: " + strings.Join(slices.Sorted(maps.Keys(hosts)), ", "),
		Next: "give each host its own RINGLET_NAME, and use IDs in commands until then; if a host was rebuilt, evict and forget the former one",
	}, true
}
