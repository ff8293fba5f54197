package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// A container ends. Its engine strikes it off its lists first, and brings the release when the network driver is done with it, or
// the plugin is back: nothing keeps it from asking for the address meanwhile, as it does for whoever else wants it with --ip. That
// one takes it over, and the release that then comes is not its own: it keeps its address.
func TestLateReleaseOnOneNetwork(t *testing.T) {
	for _, name := range []string{"", "db"} { // as engines before 29 ask, and later ones
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		h.Now = h.Now.Add(2 * time.Minute)
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "", 7, "10.50.0.9")
		for range 3 {
			h.Now = h.Now.Add(time.Minute)
			look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
		}
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, name, 9, "10.50.0.9")
		release(h, n, address("10.50.0.9"))
		for _, looks := range []bool{false, true} {
			q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0, 0, 0, 0, 10}, Address: address("10.50.0.9")}
			if r, answered := h.Try(q); answered && r.Err == nil {
				t.Errorf("%q lives, and another container has its address", name)
			}
			look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
			if s, err := h.Machine().Who(h.Now, q.Address); err != nil || s.MAC != "02:00:00:00:00:09" {
				t.Errorf("%q lives, looks %t, and the address is %+v, %v", name, looks, s, err)
			}
		}
		// What it releases itself is free.
		release(h, n, address("10.50.0.9"))
		mustAsk(t, h, n, "", 11, "10.50.0.9")
	}
}

// As TestLateReleaseOnOneNetwork, and the one that took the address over ends before the late release comes: a third one
// has the address by then, and keeps it.
func TestLateReleaseBehindAnother(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, "", 7, "10.50.0.9")
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	}
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
	release(h, n, address("10.50.0.9")) // its own
	h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0, 0, 0, 0, 10}, Address: address("10.50.0.9")})
	for range 2 {
		look(h, on("10.50.0.0/24"))
	}
	release(h, n, address("10.50.0.9")) // that of the first one
	if r, answered := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0, 0, 0, 0, 11}, Address: address("10.50.0.9")}); answered && r.Err == nil {
		t.Error("an address is granted that a container has")
	}
}

// As TestLateReleaseBehindAnother, and the second one starts yet: no list has it so far, and the third waits until one must.
func TestLateReleaseOfOneThatStarts(t *testing.T) {
	for _, lives := range []bool{true, false} {
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		h.Now = h.Now.Add(2 * time.Minute)
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "", 7, "10.50.0.9")
		for range 3 {
			h.Now = h.Now.Add(time.Minute)
			look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
		}
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "", 9, "10.50.0.9")
		release(h, n, address("10.50.0.9")) // that of the first one
		ask := func() (ipam.Reply, bool) {
			return h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0, 0, 0, 0, 10}, Address: address("10.50.0.9")})
		}
		for range 3 {
			if r, answered := ask(); answered && r.Err == nil {
				t.Fatal("an address is granted that a container has which starts")
			}
			h.Now = h.Now.Add(time.Second)
			look(h, on("10.50.0.0/24"))
		}
		h.Now = h.Now.Add(time.Minute)
		if lives {
			look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
			h.Now = h.Now.Add(time.Minute)
			look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
		} else {
			look(h, on("10.50.0.0/24"))
		}
		want := map[bool]string{true: "02:00:00:00:00:09", false: "02:00:00:00:00:0a"}[lives]
		if got, err := h.Machine().Who(h.Now, address("10.50.0.9")); err != nil || got.MAC != want {
			t.Errorf("lives %t: %+v, %v, want %s", lives, got, err, want)
		}
	}
}

// An address was taken over, and freed since by lists. Who has it then is no more than any other to be taken for one that
// has let go of it.
func TestLateReleaseIsForgottenWithItsHolder(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, "", 7, "10.50.0.9")
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	}
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	release(h, n, address("10.50.0.9"))
	for range 3 { // freed, as no list has it
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24"))
	}
	mustAsk(t, h, n, "", 10, "10.50.0.9")
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0, 0, 0, 0, 11}, Address: address("10.50.0.9")}
	look(h, on("10.50.0.0/24"))
	wantErr(t, h.Call(q).Err, ipam.ErrAddressInUse, "10.50.0.9")
}
