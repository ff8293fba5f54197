package datagram_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/ipam/peer"
)

// cable brings what one endpoint sends to another one, but for the first datagram.
type cable struct {
	to   *datagram.Endpoint
	lost bool
}

func (c *cable) SendDatagram(_ peer.ID, b []byte) bool {
	if !c.lost {
		c.lost = true
		return true
	}
	return c.to.Receive(b, nil)
}

func (c *cable) SendStream(_ peer.ID, b []byte) bool { return c.to.Receive(b, nil) }

// A datagram is lost, and the frame arrives all the same.
func Example() {
	arrived := make(chan string, 1)
	author := func(frame []byte) peer.ID { return peer.ID{frame[0]} }
	config := datagram.Config{Self: peer.ID{2}, MinFrame: 1, MaxFrame: 1 << 20, Author: author}
	config.Deliver = func(frames ...[]byte) { arrived <- string(frames[0][1:]) }
	b := datagram.New(config)
	config.Self = peer.ID{1}
	a := datagram.New(config)
	a.Open(&cable{to: b})
	b.Open(&cable{to: a, lost: true})
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	go a.Run(ctx)
	go b.Run(ctx)

	a.Send(peer.ID{2}, append([]byte{1}, "claim 10.0.0.7"...))
	fmt.Println(<-arrived)
	for a.Counts().Repeated == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("%+v\n", a.Counts())
	// Output:
	// claim 10.0.0.7
	// {Sent:1 Failed:0 Dropped:0 Repeated:1 Unconfirmed:0 Duplicate:0}
}
