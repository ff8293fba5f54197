package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// A container has started under a name, and an inventory was taken before its endpoint was
// there. It is renamed, and lives, or is gone without a release; and a container asks
// under that name for the address, or has the MAC that was set for the first one, too. Only an
// inventory that was begun after it asked tells the two apart.
func TestNameOfAContainerThatWasRenamed(t *testing.T) {
	const address0 = "10.50.0.9"
	for what, c := range map[string]struct {
		mac   byte
		ip    string
		lives bool
		want  string // nothing: any other
		err   error
	}{
		"--ip, renamed":        {2, address0, true, "", ipam.ErrAddressInUse},
		"--ip, gone":           {2, address0, false, address0, nil},
		"a fixed MAC, renamed": {1, "", true, "", nil},
		"a fixed MAC, gone":    {1, "", false, address0, nil},
	} {
		t.Run(what, func(t *testing.T) {
			h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
			n := network(t, h, "10.50.0.0/24")
			h.Call(inventory(h, n))
			h.Now = h.Now.Add(time.Minute)
			mustAsk(t, h, n, "web", 1, address0)
			h.Now = h.Now.Add(100 * time.Millisecond)
			h.Call(inventory(h, n))
			h.Now = h.Now.Add(400 * time.Millisecond)
			q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 0, 0, 0, 0, c.mac}}
			if c.ip != "" {
				q.Address = address(c.ip)
			}
			if r, answered := h.Try(q); answered {
				t.Fatalf("answered before the engine has told: %v, %v", r.Address, r.Err)
			}
			h.Now = h.Now.Add(200 * time.Millisecond)
			list := inventory(h, n)
			if c.lives {
				list = inventory(h, n, listed(address0, "old", 1))
			}
			list.After = h.Mark()
			var r ipam.Reply
			for _, reply := range h.Machine().Step(h.Now, &ipam.Call{ID: 1 << 40, Deadline: h.Now.Add(time.Second), Request: list}).Reply {
				if reply.Call != 1<<40 {
					r = reply
				}
			}
			switch got := r.Address.Address.Addr(); {
			case c.err != nil:
				wantErr(t, r.Err, c.err, address0, "held by")
			case r.Err != nil:
				t.Error(r.Err)
			case c.want != "" && got != address(c.want), c.want == "" && (got == address(address0) || got == netip.Addr{}):
				t.Errorf("got %v, want %q", got, c.want)
			}
		})
	}
}
