package ipam_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// transcript is what people did, and what they were told.
type transcript struct {
	t *testing.T
	b strings.Builder
}

// said notes an error, and fails the test if it is none to show to people.
func (s *transcript) said(did string, err error) {
	s.t.Helper()
	if err == nil {
		s.t.Errorf("%s: no error", did)
		return
	}
	fmt.Fprintf(&s.b, "%s\n  %s: %s\n\n", did, ipam.Code(err), err)
	s.look(did, err.Error())
}

// look fails the test for a text that people should not see.
func (s *transcript) look(did, text string) {
	s.t.Helper()
	for _, bad := range []string{"%!", "<nil>", "ipam.", "github.com"} {
		if strings.Contains(text, bad) {
			s.t.Errorf("%s: %q has %q in it", did, text, bad)
		}
	}
	if text == "" || strings.HasSuffix(text, ".") || text[0] >= 'A' && text[0] <= 'Z' {
		s.t.Errorf("%s: %q is no lower-case sentence without full stop", did, text)
	}
}

// Every sentence that people can read in their terminal, with what they did to
// get it.
func TestSentences(t *testing.T) {
	s := &transcript{t: t}
	said := s.said
	h := machinetest.NewHost(t, ipam.Config{Subnets: ipam.Subnets{Universe: []netip.Prefix{prefix("10.60.0.0/24")}}})
	pool := func(q ipam.PoolRequest) error {
		q.Space = cmp.Or(q.Space, ipam.Local)
		return h.Call(&q).Err
	}
	net := network(t, h, "10.50.0.0/28")
	first := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.51.0.0/30"), PoolName: "lab", Gateway: ipam.GatewayFirst}).Pool.Network
	web := run(t, h, net, "web")

	h.Call(wantLock("backup", 1))
	said("ringlet lock backup, which is held", h.Call(wantLock("backup", 2)).Err)
	said("docker network create --subnet 10.50.0.0/16", pool(ipam.PoolRequest{Pool: prefix("10.50.0.0/16")}))
	said("docker network create --subnet 10.51.0.0/29, where only networks are", pool(ipam.PoolRequest{Pool: prefix("10.51.0.0/29")}))
	said("docker network create --subnet fd00::/48", pool(ipam.PoolRequest{Pool: prefix("fd00::/48"), V6: true}))
	said("docker network create --subnet 255.255.255.254/31", pool(ipam.PoolRequest{Pool: prefix("255.255.255.254/31")}))
	said("docker network create --subnet 10.52.0.0/24 --ip-range 10.53.0.0/25", pool(ipam.PoolRequest{Pool: prefix("10.52.0.0/24"), Range: prefix("10.53.0.0/25")}))
	said("docker network create --subnet 10.52.0.0/24 --ipam-opt gateway=10.53.0.1", pool(ipam.PoolRequest{Pool: prefix("10.52.0.0/24"), Gateway: ipam.GatewayAddr, GatewayAddr: address("10.53.0.1")}))
	said("docker network create --subnet 10.52.0.0/24 --ipam-opt pool=lab", pool(ipam.PoolRequest{Pool: prefix("10.52.0.0/24"), PoolName: "lab"}))
	said("docker network create --subnet 10.51.0.0/30 --ipam-opt pool=plant", pool(ipam.PoolRequest{Pool: prefix("10.51.0.0/30"), PoolName: "plant"}))
	said("docker network create --ipam-opt pool='a b'", pool(ipam.PoolRequest{PoolName: "a b"}))
	said("docker network create --ipv6 --ipam-opt pool=NAME, which is 61 characters long", pool(ipam.PoolRequest{V6: true, PoolName: strings.Repeat("a", 61)}))
	said("docker network create --subnet 10.50.0.0/28 --ipam-opt gateway="+web.String(), pool(ipam.PoolRequest{Pool: net.Pool, Gateway: ipam.GatewayAddr, GatewayAddr: web}))
	if err := pool(ipam.PoolRequest{}); err != nil {
		t.Fatal(err)
	}
	said("docker network create, with the universe used up", pool(ipam.PoolRequest{}))
	said("docker network create --ipam-opt size=20, of which the universe has none", pool(ipam.PoolRequest{Bits: 20}))
	said("docker network create --ipv6, without an IPv6 universe", pool(ipam.PoolRequest{V6: true}))
	for range 50 {
		if err := pool(ipam.PoolRequest{PoolName: "lab"}); err != nil {
			said("docker network create --ipam-opt pool=lab, where a route of the host overlaps it", err)
			break
		}
	}

	said("docker run --ip "+web.String(), claim(h, net, web.String(), "db"))
	id := strings.Repeat("4f3a2b1c", 8)
	h.Call(inventory(h, net, ipam.InventoryEndpoint{Address: web, Container: id, Name: "web"}))
	said("docker run --ip "+web.String()+", once the engine has listed the holder", claim(h, net, web.String(), "db"))
	h.Call(&ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0x42, 1, 2, 3, 4}, Address: address("10.50.0.9")})
	said("docker run --ip 10.50.0.9, held on an engine that sends no names", claim(h, net, "10.50.0.9", "db"))
	h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/28", ID: "printer-3", Address: address("10.50.0.10")})
	said("docker run --ip 10.50.0.10, held by a client", claim(h, net, "10.50.0.10", "db"))
	h.Call(&ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(address("10.50.0.11"), 28)}})
	said("docker run --ip 10.50.0.11, an address of the host", claim(h, net, "10.50.0.11", "db"))
	lan := h.Call(&ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, Address: address("10.50.0.12")}).Address
	h.Call(&ipam.Stranger{Ticket: lan.Ticket, MAC: ipam.MAC{0x0a, 0, 0, 0, 0, 0x50}})
	said("docker run --ip 10.50.0.12, for which something else on the LAN answers", claim(h, net, "10.50.0.12", "db"))
	gw := h.Call(&ipam.AddressRequest{Network: net, Purpose: ipam.ForGateway}).Address.Address.Addr()
	said("docker run --ip "+gw.String()+", the host's gateway", claim(h, net, gw.String(), "db"))
	said("docker run --ip 10.50.0.0", claim(h, net, "10.50.0.0", "db"))
	said("docker run --ip 10.50.0.15", claim(h, net, "10.50.0.15", "db"))
	said("docker run --ip 10.51.0.1, a gateway that all share", claim(h, first, "10.51.0.1", "db"))
	h.Call(&ipam.AddressRequest{Network: first, Purpose: ipam.ForUnmarked, Address: address("10.51.0.2")})
	said("docker run --ip 10.51.0.2, an auxiliary address", claim(h, first, "10.51.0.2", "db"))
	said("docker run --ip 10.99.0.1", claim(h, net, "10.99.0.1", "db"))
	said("docker run, with nothing left", h.Call(&ipam.AddressRequest{Network: first, Purpose: ipam.ForContainer, Name: "db"}).Err)
	six := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("fd00::/64"), Range: prefix("fd00::8/127")}).Pool.Network
	run(t, h, six, "a")
	run(t, h, six, "b")
	said("docker run, with nothing left of the --ip-range", h.Call(&ipam.AddressRequest{Network: six, Purpose: ipam.ForContainer, Name: "c"}).Err)
	single := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("fd00::/64"), Range: prefix("fd00::20/128")}).Pool.Network
	run(t, h, single, "a")
	said("docker run, with the only address of the --ip-range in use", h.Call(&ipam.AddressRequest{Network: single, Purpose: ipam.ForContainer, Name: "c"}).Err)
	only := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("fd00::/64"), Range: prefix("fd00::21/128")}).Pool.Network
	h.Call(&ipam.ClientRequest{Pool: "fd00::/64", ID: "printer-3", Address: address("fd00::21")})
	said("docker run, with the only address of the --ip-range held by a client", h.Call(&ipam.AddressRequest{Network: only, Purpose: ipam.ForContainer, Name: "c"}).Err)
	said("docker run --ip6 fd00::", claim(h, six, "fd00::", "c"))
	said("docker run --ip6 fd00::ffff:ffff:ffff:ffff", claim(h, six, "fd00::ffff:ffff:ffff:ffff", "c"))

	said("ringlet alloc --pool 10.51.0.7 --for vm", h.Call(&ipam.ClientRequest{Pool: "10.51.0.7", ID: "vm"}).Err)
	said("ringlet alloc --pool nowhere --for vm", h.Call(&ipam.ClientRequest{Pool: "nowhere", ID: "vm"}).Err)
	said("ringlet alloc --pool lab --for ''", h.Call(&ipam.ClientRequest{Pool: "lab"}).Err)
	said("ringlet free", h.Call(&ipam.FreeRequest{}).Err)
	said("ringlet release "+web.String(), h.Call(&ipam.FreeRequest{Address: web}).Err)
	said("ringlet release "+gw.String(), h.Call(&ipam.FreeRequest{Address: gw}).Err)
	said("ringlet release 10.50.0.11", h.Call(&ipam.FreeRequest{Address: address("10.50.0.11")}).Err)
	h.Call(keep("10.50.0.13", "db"))
	h.Call(exclude("10.50.0.14", "10.50.0.14"))
	said("docker run --ip 10.50.0.13, kept for db", claim(h, net, "10.50.0.13", "other"))
	said("docker run --ip 10.50.0.13, on an engine that sends no names", claim(h, net, "10.50.0.13", ""))
	said("docker run --ip 10.50.0.14, excluded", claim(h, net, "10.50.0.14", "db"))
	said("ringlet reserve add 10.50.0.13 --for web", h.Call(keep("10.50.0.13", "web")).Err)
	said("ringlet reserve add "+web.String()+" --for db", h.Call(keep(web.String(), "db")).Err)
	said("ringlet reserve add 10.50.0.8 --for ''", h.Call(keep("10.50.0.8", "")).Err)
	said("ringlet exclude add 10.99.0.1", h.Call(exclude("10.99.0.1", "10.99.0.1")).Err)
	said("ringlet exclude add 10.50.0.8-10.50.0.2", h.Call(exclude("10.50.0.8", "10.50.0.2")).Err)
	said("ringlet exclude add 10.50.0.8-10.51.0.1", h.Call(exclude("10.50.0.8", "10.51.0.1")).Err)

	said("ringlet pool create 10.70.0.1/24", h.Call(&ipam.PoolCreation{CIDR: prefix("10.70.0.1/24")}).Err)
	said("ringlet pool create 10.70.0.0/24 --name lab", h.Call(&ipam.PoolCreation{CIDR: prefix("10.70.0.0/24"), Name: "lab"}).Err)
	h.Call(&ipam.PoolCreation{CIDR: prefix("10.72.0.0/24"), Name: "left"})
	said("docker network create --subnet 10.73.0.0/24 --ipam-opt pool=left, where the pool of a network that failed is left", pool(ipam.PoolRequest{Pool: prefix("10.73.0.0/24"), PoolName: "left"}))
	said("ringlet pool create 10.70.0.0/24 --name 10.70", h.Call(&ipam.PoolCreation{CIDR: prefix("10.70.0.0/24"), Name: "10/70"}).Err)
	said("ringlet pool rm 10.50.0.0/28", h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/28"}).Err)
	said("ringlet pool rm lab", h.Call(&ipam.PoolRemoval{Pool: "lab"}).Err)
	h.Call(&ipam.PoolCreation{CIDR: prefix("10.71.0.0/24")})
	said("docker network create --subnet 10.71.0.0/16, with a pool in it that nobody uses", pool(ipam.PoolRequest{Pool: prefix("10.71.0.0/16")}))
	_, err := h.Machine().Who(h.Now, address("10.99.0.1"))
	said("ringlet who 10.99.0.1", err)

	left := withSocket(t)
	nets := network(t, left, "10.50.0.0/24")
	look(left, on("10.50.0.0/24"))
	run(t, left, nets, "web") // it gets .1
	run(t, left, nets, "shop-web-1")
	look(left, on("10.50.0.0/24", ipam.InventoryEndpoint{Address: address("10.50.0.1"), Name: "web"}, ipam.InventoryEndpoint{Address: address("10.50.0.2"), Container: id, Name: "shop-web-1"}))
	said("docker run --ip 10.50.0.1, of which the engine has an endpoint without a container", claim(left, nets, "10.50.0.1", "db"))
	said("ringlet release 10.50.0.1, of which the engine has an endpoint without a container", left.Call(&ipam.FreeRequest{Address: address("10.50.0.1")}).Err)
	said("docker compose run web, of a service with ipv4_address: 10.50.0.2", claim(left, nets, "10.50.0.2", "shop-web-run-0a1b2c3d"))
	said("docker compose run web, on an engine that sends no names", claim(left, nets, "10.50.0.2", ""))

	twice := withSocket(t)
	both := network(t, twice, "10.50.0.0/24")
	look(twice, on("10.50.0.0/24"))
	twice.Call(keep("10.50.0.9", "db"))
	look(twice, keeping("10.50.0.0/24", "10.50.0.9"))
	said("docker run --name db, where a network has an address as auxiliary that is kept for db", ask(twice, both, "db", 7, "").Err)

	fresh := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	n := network(t, fresh, "10.50.0.0/24")
	fresh.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"})
	fresh.Now = fresh.Now.Add(21 * time.Second)
	r, _ := fresh.Tick()
	said("docker run, while a new database waits for the engine's list", r.Err)
	held := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	held.Call(inventory(held, n, ipam.InventoryEndpoint{Address: address("10.50.0.9"), Container: id, Name: "web"}))
	held.Restart()
	known := network(t, held, "10.50.0.0/24")
	held.Try(&ipam.AddressRequest{Network: known, Purpose: ipam.ForContainer, Name: "web", Address: address("10.50.0.9")})
	held.Now = held.Now.Add(21 * time.Second)
	r, _ = held.Tick()
	said("docker run --ip 10.50.0.9, while the engine does not list what it has", r.Err)
	unasked := withSocket(t)
	look(unasked, on("10.50.0.0/24"))
	unasked.Restart()
	unasked.Try(&ipam.PoolRemoval{Pool: "10.50.0.0/24"})
	unasked.Now = unasked.Now.Add(21 * time.Second)
	r, _ = unasked.Tick()
	said("ringlet pool rm, while the engine does not list what it has", r.Err)
	none := withoutMAC(t)
	bare := network(t, none, bareNet)
	none.Try(plainly(bare, "10.50.0.5"))
	none.Now = none.Now.Add(21 * time.Second)
	r, _ = none.Tick()
	said("docker run --ip 10.50.0.5, with RINGLET_MAC=false, while the engine does not list what it has", r.Err)
	none.Try(plainly(bare, "10.50.0.5"))
	answeredBy(t, none)
	network(t, none, bareNet)
	none.Try(plainly(bare, "10.50.0.5"))
	said("docker network create --aux-address a=10.50.0.5, with RINGLET_MAC=false, where another network has that", answeredBy(t, none, on(bareNet)).Err)
	look(none, on(bareNet), on(bareNet))
	said("docker run --ip 10.50.0.7, with RINGLET_MAC=false, below an engine before 29", none.Call(plainly(bare, "10.50.0.7")).Err)
	said("docker network create --driver overlay", pool(ipam.PoolRequest{Space: ipam.Global, Pool: prefix("10.90.0.0/24")}))
	golden.Check(t, "sentences.txt", []byte(s.b.String()))
}
