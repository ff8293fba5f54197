package ipam_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// endOf has a container that was there for long end on a host: its engine lists it no more, and has yet to
// bring its release.
func endOf(t *testing.T, name string) (*ipamtest.Host, ipam.Network) {
	t.Helper()
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, name, 7, "10.50.0.9")
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	}
	look(h, on("10.50.0.0/24"))
	return h, n
}

// A container ends. Its engine strikes it off its lists first, and brings the release when the network driver is done with it, or
// the plugin is back: nothing keeps it from asking for the address meanwhile, as it does for whoever else wants it with --ip. That
// one takes it over, and the release that then comes is not its own: it keeps its address.
func TestLateReleaseOnOneNetwork(t *testing.T) {
	for _, name := range []string{"", "db"} { // as engines before 29 ask, and later ones
		h, n := endOf(t, "")
		mustAsk(t, h, n, name, 9, "10.50.0.9")
		release(h, n, address("10.50.0.9"))
		for _, looks := range []bool{false, true} {
			q := asking(n, "", 10, "10.50.0.9")
			if r, answered := h.Try(q); answered && r.Err == nil {
				t.Errorf("%q lives, and another container has its address", name)
			}
			look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
			if s, err := h.Machine().Who(h.Now, q.Address); err != nil || s.MAC != "02:00:00:00:00:09" {
				t.Errorf("%q lives, looks %t, and the address is %+v, %v", name, looks, s, err)
			}
		}
		// What it releases itself is free as soon as a list lacks it.
		release(h, n, address("10.50.0.9"))
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "", 11, "10.50.0.9")
	}
}

// As TestLateReleaseOnOneNetwork, and the one that took the address over ends before the late release comes: a third one
// has the address by then, and keeps it.
func TestLateReleaseBehindAnother(t *testing.T) {
	h, n := endOf(t, "")
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
	release(h, n, address("10.50.0.9")) // its own
	h.Try(asking(n, "", 10, "10.50.0.9"))
	for range 2 {
		look(h, on("10.50.0.0/24"))
	}
	release(h, n, address("10.50.0.9")) // that of the first one
	if r, answered := h.Try(asking(n, "", 11, "10.50.0.9")); answered && r.Err == nil {
		t.Error("an address is granted that a container has")
	}
}

// As TestLateReleaseBehindAnother, and the second one starts yet: no list has it so far, and the third waits until one must.
func TestLateReleaseOfOneThatStarts(t *testing.T) {
	for _, lives := range []bool{true, false} {
		h, n := endOf(t, "")
		mustAsk(t, h, n, "", 9, "10.50.0.9")
		release(h, n, address("10.50.0.9")) // that of the first one
		ask := func() (ipam.Reply, bool) {
			return h.Try(asking(n, "", 10, "10.50.0.9"))
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
			mustAsk(t, h, n, "", 10, "10.50.0.9") // the calls before were answered in time
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
	h, n := endOf(t, "")
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	release(h, n, address("10.50.0.9"))
	for range 3 { // freed, as no list has it
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24"))
	}
	mustAsk(t, h, n, "", 10, "10.50.0.9")
	q := asking(n, "", 11, "10.50.0.9")
	look(h, on("10.50.0.0/24"))
	wantErr(t, h.Call(q).Err, ipam.ErrAddressInUse, "10.50.0.9")
}

// keeps fails the test if the address is not that of the container with the MAC, or another gets it,
// before and after the engine has listed it.
func keeps(t *testing.T, h *ipamtest.Host, n ipam.Network, mac byte) {
	t.Helper()
	q := asking(n, "", 99, "10.50.0.9")
	for range 2 {
		if r, answered := h.Try(q); answered && r.Err == nil {
			t.Fatal("an address is granted that a container has")
		}
		if s, err := h.Machine().Who(h.Now, q.Address); err != nil || s.MAC != (ipam.MAC{2, 0, 0, 0, 0, mac}).String() {
			t.Fatalf("the address is %+v, %v", s, err)
		}
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", mac)))
	}
}

// A container ends, and the network driver takes long: another takes its address over, or gets it once two lists
// have freed it, and has had it for minutes when the release comes. It keeps it, and what it releases itself is free.
func TestLateReleaseOfASlowDriver(t *testing.T) {
	for _, freed := range []bool{false, true} {
		for _, starts := range []bool{false, true} { // the plugin does, since
			h, n := endOf(t, "")
			for range 2 {
				if freed {
					h.Now = h.Now.Add(30 * time.Second)
					look(h, on("10.50.0.0/24"))
				}
			}
			mustAsk(t, h, n, "", 9, "10.50.0.9")
			for range 3 {
				h.Now = h.Now.Add(30 * time.Second)
				look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
			}
			if starts {
				h.Restart()
			}
			release(h, n, address("10.50.0.9"))
			keeps(t, h, n, 9)
			if starts {
				h.Restart()
			}
			release(h, n, address("10.50.0.9"))
			keeps(t, h, n, 9)
			h.Now = h.Now.Add(time.Second)
			look(h, on("10.50.0.0/24"))
			mustAsk(t, h, n, "", 11, "10.50.0.9")
		}
	}
}

// Two containers end one after the other, and another one takes over each time: two releases come late.
func TestLateReleasesOfTwo(t *testing.T) {
	h, n := endOf(t, "")
	mustAsk(t, h, n, "", 8, "10.50.0.9")
	for range 3 {
		h.Now = h.Now.Add(30 * time.Second)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "api", 8)))
	}
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	for range 2 {
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
		release(h, n, address("10.50.0.9"))
		keeps(t, h, n, 9)
	}
}

// A container that its engine has renamed ends, and another one of its former name, which the record has, takes its
// address over before the release comes.
func TestLateReleaseOfARenamedOne(t *testing.T) {
	h, n := endOf(t, "")
	h.Now = h.Now.Add(time.Second)
	mustAsk(t, h, n, "web", 9, "10.50.0.9")
	h.Now = h.Now.Add(time.Minute)
	release(h, n, address("10.50.0.9"))
	keeps(t, h, n, 9)
}

// madeAgain has a network be removed, as no list has it, and made again.
func madeAgain(t *testing.T, h *ipamtest.Host, n ipam.Network) ipam.Network {
	t.Helper()
	h.Call(&ipam.PoolRelease{Network: n})
	for range 3 {
		h.Now = h.Now.Add(30 * time.Second)
		look(h)
	}
	return network(t, h, "10.50.0.0/24")
}

// Later engines (29) let a network be removed while the release of a container that was on it has yet to come. It is
// made again, and another container has the address.
func TestLateReleaseOnANetworkMadeAgain(t *testing.T) {
	h, n := endOf(t, "")
	n = madeAgain(t, h, n)
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	release(h, n, address("10.50.0.9"))
	keeps(t, h, n, 9)
}

// The database is lost, and with it who had the address of which the release has yet to come.
func TestLateReleaseAboveANewDatabase(t *testing.T) {
	for _, restarts := range []bool{false, true} { // before the address is asked for
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		look(h, on("10.50.0.0/24", listed("10.50.0.8", "api", 8))) // no more of the other one
		if restarts {
			h.Restart()
			look(h, on("10.50.0.0/24", listed("10.50.0.8", "api", 8)))
		}
		mustAsk(t, h, n, "", 9, "10.50.0.9")
		for range 2 { // nobody knows of how many
			look(h, on("10.50.0.0/24", listed("10.50.0.8", "api", 8), listed("10.50.0.9", "db", 9)))
			release(h, n, address("10.50.0.9"))
			keeps(t, h, n, 9)
		}
		release(h, n, address("10.50.0.9")) // its own, as the next list tells
		look(h, on("10.50.0.0/24", listed("10.50.0.8", "api", 8)))
		mustAsk(t, h, n, "", 11, "10.50.0.9")
	}
}

// As it, and it was the release of a container that starts again and is to have its address: it waits for a list.
func TestRestartAboveANewDatabase(t *testing.T) {
	for _, name := range []string{"", "web"} {
		for _, minutes := range []time.Duration{11, 3} {
			t.Run(name+" "+(minutes*time.Minute).String(), func(t *testing.T) {
				h := withSocket(t)
				n := plain("10.50.0.0/24")
				look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 9)))
				h.Now = h.Now.Add(minutes * time.Minute)
				look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 9)))
				release(h, n, address("10.50.0.9"))
				h.Now = h.Now.Add(100 * time.Millisecond)
				isGranted(t, h, asking(n, name, 10, "10.50.0.9"), on("10.50.0.0/24"))
			})
		}
	}
}

// isGranted fails the test if a container gets no address by its deadline, while its engine lists every second what lives.
func isGranted(t *testing.T, h *ipamtest.Host, q *ipam.AddressRequest, lives ...ipam.InventoryNetwork) {
	t.Helper()
	from := h.Now
	r, answered := h.Try(q)
	for !answered {
		if h.Now.Sub(from) > time.Minute {
			t.Fatal("never answered")
		}
		h.Now = h.Now.Add(time.Second)
		r, answered = listAnswers(h, lives...)
	}
	if r.Err != nil {
		t.Fatalf("refused after %v: %v", h.Now.Sub(from), r.Err)
	}
}

// The network is made again, and keeps the address back as an auxiliary one.
func TestLateReleaseOfAnAuxiliaryAddress(t *testing.T) {
	h, n := endOf(t, "")
	n = madeAgain(t, h, n)
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil {
		t.Fatal(r.Err)
	}
	lives := on("10.50.0.0/24")
	lives.Auxiliary = []netip.Addr{address("10.50.0.9")}
	look(h, lives)
	release(h, n, address("10.50.0.9")) // that of the container
	if r := h.Call(asking(n, "", 11, "10.50.0.9")); r.Err == nil {
		t.Errorf("a container has what the network keeps back: %+v", r.Address)
	}
}

// The address is kept for a name: no release of it counts for ten minutes, and a list tells.
func TestLateReleaseOfWhatIsKept(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, on("10.50.0.0/24"))
	h.Call(&ipam.ReserveRequest{First: address("10.50.0.9"), Last: address("10.50.0.9"), Kind: chronicle.KindKeptForName, Note: "web"})
	mustAsk(t, h, n, "web", 7, "")
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24"))
	}
	release(h, n, address("10.50.0.9")) // late
	mustAsk(t, h, n, "web", 8, "")
	look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 8)))
	release(h, n, address("10.50.0.9"))
	h.Now = h.Now.Add(time.Second)
	look(h, on("10.50.0.0/24"))
	if s, err := h.Machine().Who(h.Now, address("10.50.0.9")); err != nil || s.State == "held" {
		t.Errorf("%+v, %v", s, err)
	}
}

// A release may come late, and the next process knows of no engine that lists: no release is doubted that no list
// would settle.
func TestLateReleaseWithoutLists(t *testing.T) {
	h, n := endOf(t, "")
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
	m, err := ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(9, 9)), HostBoot: ipam.HostBoot{At: ipamtest.Start.Add(-time.Hour)}}, h.Disk.Load)
	if err != nil {
		t.Fatal(err)
	}
	call := func(r ipam.Request) ipam.Reply {
		fx := m.Step(h.Now, &ipam.Call{ID: 1, Deadline: h.Now.Add(20 * time.Second), Request: r})
		return fx.Reply[0]
	}
	call(&ipam.Greeting{})
	call(&ipam.AddressRelease{Network: n, Address: address("10.50.0.9")}) // its own
	h.Now = h.Now.Add(24 * time.Hour)
	if r := call(asking(n, "", 11, "10.50.0.9")); r.Err != nil {
		t.Errorf("a day later: %v", r.Err)
	}
}

// A release was lost for good. What is taken for it was that of the next container: its address is freed by lists,
// within two minutes, and is to be had before by whoever asks for it.
func TestLateReleaseThatNeverComes(t *testing.T) {
	for _, asked := range []bool{false, true} {
		h, n := endOf(t, "")
		mustAsk(t, h, n, "", 9, "10.50.0.9")
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
		release(h, n, address("10.50.0.9"))
		if asked {
			q := asking(n, "", 10, "10.50.0.9")
			if r, answered := h.Try(q); answered && r.Err != nil {
				t.Fatal(r.Err)
			}
			look(h, on("10.50.0.0/24"))
			if s, err := h.Machine().Who(h.Now, q.Address); err != nil || s.MAC != q.MAC.String() {
				t.Errorf("nobody has the address, who asks for it waits, and it is %+v, %v", s, err)
			}
			continue
		}
		for range 2 {
			h.Now = h.Now.Add(30 * time.Second)
			look(h, on("10.50.0.0/24"))
		}
		if s, err := h.Machine().Who(h.Now, address("10.50.0.9")); err != nil || s.State == "held" {
			t.Errorf("nobody has the address, and it is %+v, %v", s, err)
		}
	}
}

// An engine gives back late what it asked for when there was another database, for a network that was not made,
// while it makes one with the same options: that one's gateway stays its own (seed 2001812 of TestSimBare).
func TestLateReleaseOfAPool(t *testing.T) {
	for _, lives := range []bool{true, false} {
		h := ipamtest.NewHost(t, ipam.Config{AwaitInventory: true})
		look(h)
		n := network(t, h, bareNet)
		r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		h.Now = h.Now.Add(time.Minute)
		h.Call(&ipam.PoolRelease{Network: n})
		if !slices.ContainsFunc(h.Notes, func(n ipam.Note) bool { return n.Kind == ipam.NoteParted }) {
			t.Error("no list is asked for")
		}
		gateway, want := r.Address.Address.Addr().String(), "gateway"
		if s := stateOf(t, h, gateway); s.State != want {
			t.Errorf("before a list has told, the gateway is %s", s.State)
		}
		if _, answered := h.Try(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/16")}); answered {
			t.Error("a wider network does not wait for the list")
		}
		if lives {
			wantErr(t, answeredBy(t, h, on(bareNet)).Err, ipam.ErrPoolOverlap)
			if s := stateOf(t, h, gateway); s.State != want {
				t.Errorf("the network is listed, and its gateway is %s", s.State)
			}
		} else if r := answeredBy(t, h); r.Err != nil {
			t.Error(r.Err)
		}
	}
}

// The plugin's process is frozen for longer than a release may be late, or its host sleeps: what the engine owed
// before comes when it wakes, after what others have asked for meanwhile (seed 16947341601326489617 of TestSim).
func TestLateReleaseAfterASleep(t *testing.T) {
	for _, asleep := range []bool{false, true} { // with a clock that stands
		h, n := endOf(t, "")
		for range 3 {
			h.Now = h.Now.Add(time.Minute)
			look(h, on("10.50.0.0/24"))
		}
		if asleep {
			h.SetClock(20*time.Minute, true)
		} else {
			h.Freeze(20 * time.Minute)
		}
		mustAsk(t, h, n, "", 9, "10.50.0.9")
		release(h, n, address("10.50.0.9"))
		if r, answered := h.Try(asking(n, "", 10, "10.50.0.9")); answered && r.Err == nil {
			t.Errorf("asleep %t: an address is granted that a container has", asleep)
		}
	}
}

// A network is made with the address of a container that has ended, as its gateway, and taken back: what it releases is its
// gateway, and the late release of that container is yet to come (seed 2501117 of TestSim).
func TestLateReleaseBehindAGateway(t *testing.T) {
	const pool = "10.50.0.8/30" // with two addresses, one of which a script has
	h := withSocket(t)
	n := network(t, h, pool)
	look(h, on(pool))
	if r := h.Call(&ipam.ClientRequest{Pool: pool, Address: address("10.50.0.10"), ID: "script"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	mustAsk(t, h, n, "", 7, "10.50.0.9")
	h.Now = h.Now.Add(time.Minute)
	look(h, on(pool, listed("10.50.0.9", "web", 7)))
	for range 3 { // it ends, and no release comes
		h.Now = h.Now.Add(time.Minute)
		look(h, on(pool))
	}
	h.Call(&ipam.PoolRelease{Network: n})
	look(h)
	made := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(pool), Gateway: ipam.GatewayHost}).Pool.Network
	if r := h.Call(&ipam.AddressRequest{Network: made, Purpose: ipam.ForGateway}); r.Err != nil || r.Address.Address.Addr() != address("10.50.0.9") {
		t.Fatalf("its gateway is %v, %v", r.Address.Address, r.Err)
	}
	release(h, made, address("10.50.0.9"))
	h.Call(&ipam.PoolRelease{Network: made})
	look(h)
	n = network(t, h, pool)
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	release(h, n, address("10.50.0.9"))
	if r, answered := h.Try(asking(n, "", 10, "10.50.0.9")); answered && r.Err == nil {
		t.Error("an address is granted that a container has")
	}
}

// The database is lost with the engine up. A container asks for its address, on a network that was there before, and another
// network like that one is made, of which the list does not tell yet: it has no more networks than were asked for. The release
// of who had the address before comes all the same (seed 8665062976995703963 of TestSim).
func TestLateReleaseBesideANewNetwork(t *testing.T) {
	h := withSocket(t)
	n := plain("10.50.0.0/24")
	if r, answered := h.Try(asking(n, "", 9, "10.50.0.9")); answered {
		t.Fatalf("it does not wait for a list: %v", r.Err)
	}
	network(t, h, "10.50.0.0/24")
	if r, answered := listAnswers(h, on("10.50.0.0/24")); !answered || r.Err != nil {
		t.Fatalf("it gets no address, answered %t: %v", answered, r.Err)
	}
	release(h, n, address("10.50.0.9"))
	keeps(t, h, n, 9)
}

// A host loses its database under a container, and its engine lists it before the host has taken over what it had before: it is
// held when that is decided, and not when a list comes. The release that comes later may be that of who had the address before
// (seed 15852230399374591906 of TestSim).
func TestLateReleaseBehindATakeover(t *testing.T) {
	c := rebuildable(t)
	cidr, web := prefix("10.50.0.0/24"), listed("10.50.0.9", "web", 7)
	c.network(2, cidr)
	if err := c.ip(2, cidr, web.Address); err != nil {
		t.Fatal(err)
	}
	c.rebuild(2)
	machine := c.peers[2].machine
	holder := func() string {
		s, err := machine.Who(c.now, web.Address)
		if err != nil {
			return err.Error()
		}
		return s.Container
	}
	var begun time.Time // of the last list
	c.run(2*time.Minute, func() bool {
		if holder() == web.Container {
			return true
		}
		if len(machine.State().Pools) > 0 && c.now.Sub(begun) >= 10*time.Second {
			begun = c.now
			c.listed(2, cidr, web)
		}
		return false
	})
	if holder() != web.Container || c.now.Equal(begun) {
		t.Fatalf("it is %q that has the address, at a list %t", holder(), c.now.Equal(begun))
	}
	c.listed(2, cidr, web)
	c.ask(2, &ipam.AddressRelease{Network: local(cidr), Address: web.Address})
	for i := range c.peers {
		if err := c.ip(i, cidr, web.Address); err == nil {
			t.Errorf("host %d gets an address that a container has", i)
		}
	}
}

// A process is frozen for minutes before an answer leaves, and its engine is not. What it was asked for is yet to come when it
// goes on, however old the grant is by then: lists that lack it say nothing.
func TestFrozenBeforeTheAnswer(t *testing.T) {
	const freeze = 2 * time.Minute
	t.Run("a container", func(t *testing.T) {
		for _, then := range []func(h *ipamtest.Host){
			func(*ipamtest.Host) {},
			func(h *ipamtest.Host) { h.Now = h.Now.Add(8 * time.Second) },
			func(h *ipamtest.Host) { h.Tick(); h.Restart() },
		} {
			for _, probed := range []time.Duration{0, 3 * time.Second} { // whether somebody outside has the address
				h := withSocket(t)
				n := network(t, h, "10.50.0.0/24")
				look(h, on("10.50.0.0/24"))
				mustAsk(t, h, n, "web", 7, "10.50.0.9")
				h.Now = h.Now.Add(probed)
				h.Tick()
				h.Freeze(freeze)
				look(h, on("10.50.0.0/24"))
				wantErr(t, ask(h, n, "db", 8, "10.50.0.9").Err, ipam.ErrAddressInUse, "web")
				then(h)
				look(h, on("10.50.0.0/24"))
				if r, answered := h.Try(asking(n, "db", 8, "10.50.0.9")); answered && r.Err == nil {
					t.Errorf("probed for %v: web starts with the address that db gets", probed)
				}
				for range 2 { // it never comes
					h.Now = h.Now.Add(30 * time.Second)
					look(h, on("10.50.0.0/24"))
				}
				mustAsk(t, h, n, "db", 8, "10.50.0.9")
			}
		}
	})
	t.Run("a container, with a stranger on the network", func(t *testing.T) {
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		look(h, on("10.50.0.0/24"))
		answered(h, mustAsk(t, h, n, "other", 6, "")) // which is kept back for an hour, when the next alarm goes off
		mustAsk(t, h, n, "web", 7, "10.50.0.9")
		h.Freeze(freeze)
		look(h, on("10.50.0.0/24"))
		if r, answered := h.Try(asking(n, "db", 8, "10.50.0.9")); answered && r.Err == nil {
			t.Error("web starts with the address that db gets")
		}
	})
	t.Run("a container, frozen for less", func(t *testing.T) {
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		look(h, on("10.50.0.0/24"))
		mustAsk(t, h, n, "web", 7, "10.50.0.9")
		h.Freeze(23 * time.Second)
		look(h, on("10.50.0.0/24"))
		h.Now = h.Now.Add(17 * time.Second)
		look(h, on("10.50.0.0/24"))
		if r, answered := h.Try(asking(n, "db", 8, "10.50.0.9")); answered && r.Err == nil {
			t.Error("web starts with the address that db gets")
		}
	})
	t.Run("a container of a fixed MAC, without lists", func(t *testing.T) {
		h := ipamtest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.50.0.0/24")
		mustAsk(t, h, n, "", 7, "10.50.0.9")
		h.Freeze(freeze)
		wantErr(t, ask(h, n, "", 7, "10.50.0.9").Err, ipam.ErrAddressInUse, "held")
		h.Now = h.Now.Add(time.Minute)
		mustAsk(t, h, n, "", 7, "10.50.0.9") // it is back, for all that anybody can tell
	})
	t.Run("a network", func(t *testing.T) {
		h := withSocket(t)
		look(h)
		n := network(t, h, "10.50.0.0/24")
		h.Now = h.Now.Add(1500 * time.Millisecond)
		h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
		h.Freeze(freeze)
		for range 2 {
			look(h)
			h.Now = h.Now.Add(25 * time.Second)
		}
		if pools := h.Machine().Status(h.Now).Pools; len(pools) != 1 || pools[0].Networks != 1 {
			t.Errorf("with a network in the making the pools are %+v", pools)
		}
	})
	t.Run("a network that is replayed", func(t *testing.T) {
		h := withSocket(t)
		look(h)
		n := network(t, h, "10.50.0.0/24")
		gateway := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
		look(h, on("10.50.0.0/24"))
		h.Now = h.Now.Add(time.Hour)
		look(h, on("10.50.0.0/24"))
		h.Call(&ipam.Greeting{})
		h.Call(&ipam.Blindness{}) // its engine starts, and answers nothing
		network(t, h, "10.50.0.0/24")
		h.Freeze(freeze)
		h.Call(&ipam.PoolRelease{Network: n}) // another subnet of it was refused
		if r, answered := h.Try(asking(n, "db", 8, gateway.String())); answered && r.Err == nil {
			t.Error("a container gets the gateway of a network that lives")
		}
	})
}
