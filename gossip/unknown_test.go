package gossip_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/ipam/wire"
)

// TestUnknownSender has a peer be away for the moment in which another one joins
// or comes back elsewhere, too short for anybody to miss it. It learns of that
// one when it hears it, long before an exchange by chance, and can answer.
func TestUnknownSender(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("back=%v", back), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				peers := c.startAll(5)
				deaf := peers[4]
				if back {
					former := c.start(6)
					c.together(time.Minute, append(peers, former)...)
					former.crash()
					c.together(time.Minute, peers...)
				}
				time.Sleep(2 * time.Minute) // nobody joins any more, as who is new does for a while
				c.net.SetLink(func(from, to netip.AddrPort) memnet.Link {
					if from == deaf.cfg.Advertise || to == deaf.cfg.Advertise {
						return memnet.Cut()
					}
					return memnet.Link{}
				})
				late := c.start(6, func(cfg *gossip.Config) { cfg.Bind, cfg.Advertise, cfg.Boot = at(60), at(60), 2 })
				c.until(3*time.Second, "the sixth is there", func() bool { return peers[0].knows(late.id).Alive && late.knows(deaf.id).Alive })
				time.Sleep(3 * time.Second) // what spreads has spread
				c.heal()
				if deaf.knows(late.id).Alive {
					t.Fatal("the word has come by another way")
				}
				hello := wire.Join{Name: "late"}
				late.Send(deaf.id, late.frame(hello))
				c.until(10*time.Second, "the sixth is known", func() bool { return deaf.knows(late.id).Alive })
				deaf.Send(late.id, deaf.frame(hello))
				c.until(10*time.Second, "it gets an answer", func() bool {
					return late.received(func(f got) bool { return f.Body == hello && f.From == deaf.id })
				})
			})
		})
	}
}
