package membership_test

import "fmt"

// A peer founds a cluster, and another one joins it: the first admits it once it has answered a challenge. Then the first is
// restored from a record which says that its space was given up.
func Example() {
	a, b := newMember("host-a", nil), newMember("host-b", nil)
	a.start()
	fmt.Println("host-a is", a.Standing(), "- takes part:", a.TakesPart())

	b.cfg.Join = true
	b.Configure(b.cfg)
	b.start()
	fmt.Println("host-b is", b.Standing(), "because", b.Ready())
	for range 20 {
		exchange(a, b)
	}
	fmt.Println("host-b is", b.Standing(), "- takes part:", b.TakesPart())

	again := newMember("host-a", map[string]string{"given up": "its addresses were released with ringlet forget on host-b"})
	again.start()
	fmt.Println("host-a is", again.Standing(), "because", again.Ready())
	// Output:
	// host-a is alone - takes part: true
	// host-b is joining because ringlet on host-b has not found its cluster yet: check that the hosts in RINGLET_JOIN run ringlet and are reachable, and see ringlet status
	// host-b is ready - takes part: true
	// host-a is suspended because ringlet on host-a has stopped handing out addresses, because its addresses were released with ringlet forget on host-b; see ringlet status
}
