package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

func exclude(first, last string) *ipam.ReserveRequest {
	return &ipam.ReserveRequest{First: address(first), Last: address(last), Kind: chronicle.KindExcluded, Note: "printers"}
}

func keep(a, name string) *ipam.ReserveRequest {
	return &ipam.ReserveRequest{First: address(a), Last: address(a), Kind: chronicle.KindKeptForName, Note: name}
}

func unreserve(first, last string, kind chronicle.Kind) *ipam.UnreserveRequest {
	return &ipam.UnreserveRequest{First: address(first), Last: address(last), Kind: kind}
}

// reservations are those of an operator, in words.
func reservations(t testing.TB, m *ipam.Machine) string {
	t.Helper()
	list, err := m.Reservations("")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range list {
		if r.Kind == chronicle.KindExcluded.String() || r.Kind == chronicle.KindKeptForName.String() {
			out = append(out, fmt.Sprintf("%v-%v %s", r.First, r.Last, r.Note))
		}
	}
	return strings.Join(out, ", ")
}

func collisionsOf(r *ipam.Reserving) string {
	var out []string
	for _, c := range r.Collisions {
		out = append(out, fmt.Sprintf("%v-%v %s", c.First, c.Last, c.Why))
	}
	return strings.Join(out, "; ")
}

// What is excluded is never handed out, what is held in it stays held, and what
// is no longer excluded can be had again.
func TestExclude(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	web := run(t, h, n, "web") // .1
	run(t, h, n, "db")         // .2
	h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/28", ID: "printer", Address: address("10.50.0.6")})
	r := h.Call(exclude("10.50.0.0", "10.50.0.10"))
	want := "10.50.0.1-10.50.0.1 is held by container web on host-a since 2026-11-21 09:00 UTC; " +
		"10.50.0.2-10.50.0.2 is held by container db on host-a since 2026-11-21 09:00 UTC; " +
		"10.50.0.6-10.50.0.6 is held by \"printer\" on host-a since 2026-11-21 09:00 UTC"
	if got := collisionsOf(r.Reserving); r.Err != nil || got != want || r.Reserving.Addresses != 7 { // the network address is not excluded
		t.Fatalf("%v, %d reserved, collisions %s", r.Err, r.Reserving.Addresses, got)
	}
	for range 2 { // again, it is no other
		r := h.Call(exclude("10.50.0.0", "10.50.0.10"))
		if got := reservations(t, h.Machine()); r.Err != nil || got != "10.50.0.3-10.50.0.5 printers, 10.50.0.7-10.50.0.10 printers" {
			t.Fatalf("%v, excluded are %s", r.Err, got)
		}
	}
	wantErr(t, claim(h, n, "10.50.0.4", "x"), ipam.ErrAddressReserved, "is excluded (printers)")
	if a := run(t, h, n, "cache"); a.Less(address("10.50.0.11")) {
		t.Errorf("got %v, all below .11 are held or excluded", a)
	}
	release(h, n, web)
	h.Call(exclude("10.50.0.1", "10.50.0.1"))
	h.CheckDisk()
	h.Restart()
	wantErr(t, claim(h, n, "10.50.0.1", "web"), ipam.ErrAddressReserved, "is excluded")

	// A part of what is excluded goes, and the rest stays.
	if r := h.Call(unreserve("10.50.0.4", "10.50.0.8", chronicle.KindExcluded)); r.Err != nil || r.Reserving.Addresses != 4 {
		t.Fatalf("%v, %d freed", r.Err, r.Reserving.Addresses)
	}
	if got := reservations(t, h.Machine()); got != "10.50.0.1-10.50.0.1 printers, 10.50.0.3-10.50.0.3 printers, 10.50.0.9-10.50.0.10 printers" {
		t.Errorf("excluded are %s", got)
	}
	if r := h.Call(unreserve("10.50.0.4", "10.50.0.8", chronicle.KindExcluded)); r.Err != nil || r.Reserving.Addresses != 0 {
		t.Errorf("%v, %d freed that were free", r.Err, r.Reserving.Addresses)
	}
	if err := claim(h, n, "10.50.0.5", "x"); err != nil {
		t.Error(err)
	}
	h.CheckDisk()
}

// A device that answers, and an interface of the host, are what addresses are
// excluded for.
func TestExcludeWhatIsNoContainers(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	lan := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Address: address("10.50.0.3")}).Address
	h.Call(&ipam.Stranger{Ticket: lan.Ticket, MAC: ipam.MAC{0x0a, 0, 0, 0, 0, 0x50}})
	h.Call(&ipam.HostAddresses{Addresses: []netip.Prefix{prefix("10.50.0.4/28")}})
	r := h.Call(exclude("10.50.0.2", "10.50.0.5"))
	if r.Err != nil || len(r.Reserving.Collisions) > 0 || r.Reserving.Addresses != 4 {
		t.Errorf("%v, %d reserved, %s", r.Err, r.Reserving.Addresses, collisionsOf(r.Reserving))
	}
	h.CheckDisk()
}

// What ends with the last address of a /64, which no pool has, can be excluded.
func TestExcludeUpToTheLastOf64(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "fd00:50::/64")
	last := "fd00:50::ffff:ffff:ffff:ffff"
	r := h.Call(exclude("fd00:50:0:0:8000::", last))
	if r.Err != nil || len(r.Reserving.Collisions) > 0 || r.Reserving.Addresses != 1<<63-1 {
		t.Fatalf("%v, %d reserved, %s", r.Err, r.Reserving.Addresses, collisionsOf(r.Reserving))
	}
	wantErr(t, claim(h, n, "fd00:50::ffff:ffff:ffff:fffe", "web"), ipam.ErrAddressReserved, "is excluded")
	wantErr(t, h.Call(exclude(last, last)).Err, ipam.ErrAddressReserved, "subnet anycast address")
	r = h.Call(unreserve("fd00:50::", last, chronicle.KindExcluded))
	if r.Err != nil || r.Reserving.Addresses != 1<<63-1 || reservations(t, h.Machine()) != "" {
		t.Errorf("%v, %d freed, %s stay", r.Err, r.Reserving.Addresses, reservations(t, h.Machine()))
	}
	if r = h.Call(exclude("fd00:50::", last)); r.Err != nil || len(r.Reserving.Collisions) > 0 {
		t.Errorf("the whole of it: %v, %s", r.Err, collisionsOf(r.Reserving))
	}
	h.CheckDisk()
}

func TestReserveRefused(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	run(t, h, n, "web")
	for _, tt := range []struct {
		q    ipam.Request
		kind error
		text string
	}{
		{exclude("10.60.0.1", "10.60.0.2"), ipam.ErrPoolNotFound, "is in no pool"},
		{exclude("10.50.0.5", "10.50.0.99"), ipam.ErrAddressOutOfRange, "10.50.0.99"},
		{exclude("10.50.0.5", "10.50.0.4"), ipam.ErrBadRequest, "the other way round"},
		{&ipam.ReserveRequest{Pool: "lab", First: address("10.50.0.1"), Last: address("10.50.0.1"), Kind: chronicle.KindExcluded}, ipam.ErrPoolNotFound, "no pool lab"},
		{&ipam.ReserveRequest{First: address("10.50.0.1"), Last: address("10.50.0.1"), Kind: chronicle.KindGateway}, ipam.ErrBadRequest, "not reserved as gateway"},
		{&ipam.ReserveRequest{First: address("10.50.0.1"), Last: address("10.50.0.2"), Kind: chronicle.KindKeptForName, Note: "x"}, ipam.ErrBadRequest, "only single addresses"},
		{keep("10.50.0.2", ""), ipam.ErrBadRequest, "name the container"},
		{keep("10.50.0.2", strings.Repeat("x", 256)), ipam.ErrBadRequest, "255 bytes"},
		{keep("10.50.0.1", "db"), ipam.ErrAddressInUse, "container web"},
		{keep("10.50.0.0", "db"), ipam.ErrAddressReserved, "network address"},
		{unreserve("10.50.0.0", "10.50.0.3", chronicle.KindNetwork), ipam.ErrBadRequest, "cannot be removed by hand"},
		{unreserve("10.50.0.9", "10.60.0.3", chronicle.KindExcluded), ipam.ErrAddressOutOfRange, "10.60.0.3"},
	} {
		wantErr(t, h.Call(tt.q).Err, tt.kind, tt.text)
	}
	// What is not so needs no end, also where there is no pool.
	if r := h.Call(unreserve("10.60.0.0", "10.60.0.3", chronicle.KindExcluded)); r.Err != nil || r.Reserving.Addresses != 0 {
		t.Errorf("got %+v, %v", r.Reserving, r.Err)
	}
}

// An address that is kept for a name goes to that name alone, each time.
func TestKeptForName(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	mac := ipam.MAC{2, 0x42, 1, 2, 3, 4}
	for _, q := range []*ipam.ReserveRequest{keep("10.50.0.1", "web"), keep("10.50.0.9", "db"), keep("10.50.0.10", mac.String()), keep("10.50.0.11", "printer"), keep("10.50.0.1", "web")} {
		if r := h.Call(q); r.Err != nil || r.Reserving.Addresses != 1 {
			t.Fatalf("%v: %v, %d", q.First, r.Err, r.Reserving.Addresses)
		}
	}
	wantErr(t, h.Call(keep("10.50.0.1", "db")).Err, ipam.ErrAddressReserved, "is reserved for web")
	if a := run(t, h, n, "other"); a != address("10.50.0.2") {
		t.Errorf("another container got %v", a)
	}
	wantErr(t, claim(h, n, "10.50.0.1", "other"), ipam.ErrAddressReserved, "is reserved for web")
	wantErr(t, claim(h, n, "10.50.0.1", ""), ipam.ErrAddressReserved, "does not send the names")
	for range 3 {
		for name, want := range map[string]string{"web": "10.50.0.1", "db": "10.50.0.9"} {
			a := run(t, h, n, name)
			if a != address(want) {
				t.Fatalf("%s got %v, and %s is kept for it", name, a, want)
			}
			wantErr(t, claim(h, n, want, "other"), ipam.ErrAddressReserved, "is reserved for "+name)
			release(h, n, a)
			wantErr(t, claim(h, n, want, "other"), ipam.ErrAddressReserved, "is reserved for "+name)
			h.CheckDisk()
		}
		h.Restart()
	}
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, MAC: mac}); r.Address.Address.Addr() != address("10.50.0.10") {
		t.Errorf("by its MAC a container got %v, %v", r.Address.Address, r.Err)
	}
	for range 2 {
		if r := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/28", ID: "printer"}); r.Address.Address.Addr() != address("10.50.0.11") {
			t.Errorf("the printer got %v, %v", r.Address.Address, r.Err)
		}
	}
	s := h.Machine().Status(h.Now).Pools[0]
	if s.Reserved != 2+2 || s.Held != 3 {
		t.Errorf("%d reserved and %d held, want 4 and 3", s.Reserved, s.Held)
	}
	// All the others can be had, and none of these.
	for i := range 14 - 5 {
		run(t, h, n, fmt.Sprint("c", i))
	}
	wantErr(t, h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "more"}).Err, ipam.ErrNoAddress)
	h.CheckDisk()

	// It is kept no more: whoever has it keeps it, and what waits can be had.
	if r := h.Call(unreserve("10.50.0.0", "10.50.0.15", chronicle.KindKeptForName)); r.Err != nil || r.Reserving.Addresses != 4 {
		t.Fatalf("%v, %d freed", r.Err, r.Reserving.Addresses)
	}
	if who, err := h.Machine().Who(h.Now, address("10.50.0.11")); err != nil || who.Name != "printer" || who.State != "held" {
		t.Errorf("%+v, %v", who, err)
	}
	for _, a := range []string{"10.50.0.1", "10.50.0.9"} {
		if err := claim(h, n, a, "x"+a); err != nil {
			t.Error(err)
		}
	}
	h.CheckDisk()
}

// A MAC is the same one however it is written. A name that looks like one is a
// name as well.
func TestKeptForMACAsWritten(t *testing.T) {
	mac := ipam.MAC{2, 0x42, 0xc0, 0xa8, 1, 0x79}
	for text, meant := range map[string]bool{
		"02:42:c0:a8:01:79": true, "02:42:C0:A8:01:79": true, "02-42-c0-a8-01-79": true, "0242.C0a8.0179": true,
		"02:42:c0:a8:01:78": false, "0242c0a80179": false, "02:42:c0:a8:01:79:00:00": false, "db": false,
	} {
		t.Run(text, func(t *testing.T) {
			h := machinetest.NewHost(t, ipam.Config{})
			n := network(t, h, "10.50.0.0/24")
			if err := h.Call(keep("10.50.0.200", text)).Err; err != nil {
				t.Fatal(err)
			}
			r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: mac})
			got := r.Address.Address.Addr()
			if (got == address("10.50.0.200")) != meant {
				t.Errorf("the container with MAC %v gets %v, %v", mac, got, r.Err)
			}
			h.Call(&ipam.AddressRelease{Network: n, Address: got})
			r = h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: text})
			if r.Address.Address.Addr() != address("10.50.0.200") {
				t.Errorf("the container of that name gets %v, %v", r.Address.Address, r.Err)
			}
		})
	}
}

// What waits for its name is held by nobody, by whatever it is counted.
func TestKeptIsNotCountedAsHeld(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	run(t, h, n, "web")
	for _, a := range []string{"10.50.0.5", "10.50.0.6", "10.50.0.9"} {
		if err := h.Call(keep(a, "db"+a)).Err; err != nil {
			t.Fatal(err)
		}
		release(h, n, run(t, h, n, "db"+a))
	}
	run(t, h, n, "db10.50.0.6")
	p := h.Machine().Status(h.Now).Pools[0]
	var held uint64
	for _, r := range p.Holders {
		held += r.Held
	}
	if p.Held != 2 || held != 2 || p.Shares[0].Held != 2 {
		t.Errorf("the pool has %d held, its ranges %d, its shares %+v", p.Held, held, p.Shares)
	}
	h.CheckDisk()
}

// Whoever has an address may have it kept for itself.
func TestKeptForItsHolder(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	web := run(t, h, n, "web")
	if err := h.Call(keep(web.String(), "web")).Err; err != nil {
		t.Fatal(err)
	}
	list, err := h.Machine().List(h.Now, ipam.Listing{Holder: "web"})
	if has := list.Addresses; len(has) != 1 || has[0].Address != web || has[0].State != "held" {
		t.Errorf("web has %+v, %v", has, err)
	}
	if r := h.Call(exclude("10.50.0.1", "10.50.0.1")); r.Err != nil || collisionsOf(r.Reserving) != "10.50.0.1-10.50.0.1 is reserved for web" {
		t.Errorf("%v, %s", r.Err, collisionsOf(r.Reserving))
	}
	release(h, n, web)
	for i := range 13 {
		if a := run(t, h, n, fmt.Sprint("c", i)); a == web {
			t.Fatalf("%v, which is kept for web, went to another", a)
		}
	}
	if a := run(t, h, n, "web"); a != web {
		t.Errorf("web is back at %v", a)
	}
	// A grant that could not be delivered, and one that is withdrawn.
	release(h, n, web)
	g := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}).Address
	h.Call(&ipam.Withdrawal{Ticket: g.Ticket})
	wantErr(t, claim(h, n, web.String(), "other"), ipam.ErrAddressReserved, "is reserved for web")
	h.CheckDisk()
}

// An endpoint that the engine has, and of which the records were lost, is taken
// in at the address that is kept for it.
func TestKeptIsTakenIn(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	h.Call(inventory(h, ipam.Network{Pool: prefix("10.50.0.0/28")}))
	n := network(t, h, "10.50.0.0/28")
	for _, q := range []*ipam.ReserveRequest{keep("10.50.0.3", "web"), keep("10.50.0.4", "db")} {
		if err := h.Call(q).Err; err != nil {
			t.Fatal(err)
		}
	}
	h.Now = h.Now.Add(time.Hour)
	id := strings.Repeat("4f3a2b1c", 8)
	h.Call(inventory(h, n, ipam.InventoryEndpoint{Address: address("10.50.0.3"), Container: id, Name: "web"}, ipam.InventoryEndpoint{Address: address("10.50.0.4"), Container: id, Name: "other"}))
	if who, err := h.Machine().Who(h.Now, address("10.50.0.3")); err != nil || who.State != "held" || who.Container != id {
		t.Errorf("%+v, %v", who, err)
	}
	problems := h.Machine().Status(h.Now).Problems
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "10.50.0.4") || !strings.Contains(problems[0].Text, "reserved for db") {
		t.Errorf("problems %+v", problems)
	}
	// The engine replays what it has without names.
	h.Call(&ipam.Greeting{})
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/28")})
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.3")}); r.Err != nil {
		t.Error(r.Err)
	}
	h.CheckDisk()
}

// One host excludes a range in which all have containers.
func TestClusterExcludes(t *testing.T) {
	c, cidr := lab(t)
	held := map[string]bool{}
	for i := range c.peers {
		list, err := c.peers[i].machine.Addresses(c.now, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.State == "held" {
				held[s.Address.String()] = true
			}
		}
	}
	r := c.ask(1, exclude("10.50.0.0", "10.50.0.255"))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	n := 0
	for _, found := range r.Reserving.Collisions {
		for a := found.First; a.Compare(found.Last) <= 0; a = a.Next() {
			n++
			if !held[a.String()] || !strings.Contains(found.Why, "on host-") {
				t.Errorf("%v %s", a, found.Why)
			}
		}
	}
	if n != len(held) || r.Reserving.Addresses != uint64(254-len(held)) {
		t.Errorf("%d reserved, %d collide, and %d are held: %s", r.Reserving.Addresses, n, len(held), collisionsOf(r.Reserving))
	}
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		err := c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "more"}).Err
		wantErr(t, err, ipam.ErrNoAddress)
	}
	if r := c.ask(2, unreserve("10.50.0.0", "10.50.0.255", chronicle.KindExcluded)); r.Err != nil || r.Reserving.Addresses < 200 {
		t.Fatalf("%v, %d freed", r.Err, r.Reserving.Addresses)
	}
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		if err := c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: "more"}).Err; err != nil {
			t.Error(err)
		}
	}
	c.check()
}

// An address that was excluded by itself is listed, and no accidental piece of a range,
// which its owners gave up bit by bit.
func TestPiecesOfARangeAreNotListed(t *testing.T) {
	c := newLockstep(t, 2)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	for i := range c.peers {
		if err := c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Err; err != nil {
			t.Fatal(err)
		}
		if err := c.ask(i, docker(cidr)).Err; err != nil {
			t.Fatal(err)
		}
	}
	whole := &ipam.ReserveRequest{First: address("10.60.0.0"), Last: address("10.60.0.255"), Kind: chronicle.KindExcluded}
	for _, q := range []*ipam.ReserveRequest{exclude("10.60.0.200", "10.60.0.200"), exclude("10.60.0.201", "10.60.0.201"), whole} {
		if err := c.ask(0, q).Err; err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.peers[0].machine.Addresses(c.now, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		if a.Kind == chronicle.KindExcluded.String() {
			got = append(got, a.Address.String())
		}
	}
	if !slices.Equal(got, []string{"10.60.0.200", "10.60.0.201"}) {
		t.Errorf("%v are listed, and of %s", got, reservations(t, c.peers[0].machine))
	}
}

// What a host has that is gone, or cannot be reached, is told and left alone.
func TestClusterExcludesWithoutOne(t *testing.T) {
	c, _ := lab(t)
	c.die(2)
	r := c.ask(0, exclude("10.50.0.0", "10.50.0.255"))
	if r.Err != nil || !strings.Contains(collisionsOf(r.Reserving), "host-2, which is unreachable") {
		t.Fatalf("%v, %s", r.Err, collisionsOf(r.Reserving))
	}
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	r = c.ask(1, exclude("10.50.0.0", "10.50.0.255"))
	if r.Err != nil || !strings.Contains(collisionsOf(r.Reserving), "host-2, which was lost and evicted") {
		t.Errorf("%v, %s", r.Err, collisionsOf(r.Reserving))
	}
}

// The container that an address is kept for finds it on whatever host it
// starts, at once or after a while, and only one at a time.
func TestClusterKeepsForName(t *testing.T) {
	c, cidr := lab(t)
	request := func(i int, name string) ipam.Reply {
		return c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: name})
	}
	var all []netip.Addr
	for _, a := range []string{"10.50.0.200", "10.50.0.20", "10.50.0.60", "10.50.0.100"} { // nobody's, and of each
		if err := c.ask(1, keep(a, "web"+a)).Err; err != nil {
			t.Fatal(err)
		}
		all = append(all, address(a))
	}
	for round := range 4 {
		i := round % 3
		for _, a := range all {
			r := request(i, "web"+a.String())
			if r.Err != nil || r.Address.Address.Addr() != a {
				t.Fatalf("on host-%d it got %v, %v, want %v", i, r.Address.Address, r.Err, a)
			}
			wantErr(t, request((i+1)%3, "web"+a.String()).Err, ipam.ErrAddressInUse, "container web"+a.String())
			c.ask(i, &ipam.AddressRelease{Network: local(cidr), Address: a})
		}
		if round == 2 { // long enough to be given back
			end := c.now.Add(20 * time.Minute)
			c.run(time.Hour, func() bool { return c.now.After(end) })
			for _, p := range c.peers {
				list, _ := p.machine.Reservations("")
				if slices.ContainsFunc(list, func(r ipam.ReservationStatus) bool { return r.Peer != "" }) {
					t.Errorf("some are lent still: %+v", list)
				}
			}
		}
		c.check()
	}
	for i := range c.peers {
		for {
			r := request(i, "")
			if r.Err != nil {
				break
			}
			if slices.Contains(all, r.Address.Address.Addr()) {
				t.Fatalf("%v, which is kept, went to another", r.Address.Address)
			}
		}
	}
	c.check()
}

// check fails the test if an invariant is broken on a peer.
func (c *lockstep) check() {
	c.t.Helper()
	for _, p := range c.peers {
		for _, err := range p.machine.Check(c.now) {
			c.t.Errorf("%s: %v", p.cfg.Name, err)
		}
	}
}
