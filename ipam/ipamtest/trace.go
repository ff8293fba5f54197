package ipamtest

import (
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

func actionName(a chronicle.Action) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", a), "chronicle.")
}

// peerText names a peer by its host.
func (c *cluster) peerText(id peer.ID) string {
	if s := c.find(func(s *site) bool { return s.id == id }); s != nil {
		return s.String()
	}
	return id.Short()
}

func batchText(value []byte) string {
	batch, err := chronicle.DecodeBatch(value)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for i, c := range batch {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %d %v", c.Author.Short(), c.Number, c.Action)
	}
	return b.String()
}

func eventText(ev ipam.Event) string {
	switch ev := ev.(type) {
	case ipam.Tick:
		return "tick"
	case *ipam.Call:
		return fmt.Sprintf("call %d %s", ev.ID, requestText(ev.Request))
	case *ipam.Message:
		return fmt.Sprintf("from %s at %d: %s", ev.Frame.From.Short(), ev.Frame.Slot, bodyText(ev.Frame.Body))
	case *ipam.Presence:
		return fmt.Sprintf("presence of %s: alive %t", ev.Peer.Short(), ev.Alive)
	}
	return fmt.Sprintf("%T", ev)
}

func requestText(r ipam.Request) string {
	if inv, ok := r.(*ipam.Inventory); ok {
		n := 0
		for _, net := range inv.Networks {
			n += len(net.Endpoints)
		}
		return fmt.Sprintf("inventory of %d networks, %d endpoints, after %+v", len(inv.Networks), n, inv.After)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", r, r), "*ipam.")
}

func replyText(r ipam.Reply) string {
	if r.Err != nil {
		return fmt.Sprintf("reply %d: %s: %v", r.Call, ipam.Code(r.Err), r.Err)
	}
	return fmt.Sprintf("reply %d: %v %v", r.Call, r.Address.Address, deref(r.Pool))
}

func bodyText(b wire.Body) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", b), "wire.")
	switch v := b.(type) {
	case wire.Prepare:
		return fmt.Sprintf("%s slot %d ballot %v", name, v.Slot, v.Ballot)
	case wire.Promise:
		return fmt.Sprintf("%s slot %d ballot %v, accepted at %v: %s", name, v.Slot, v.Promise.Ballot, v.Promise.Accepted, batchText(v.Promise.Value))
	case wire.Accept:
		return fmt.Sprintf("%s slot %d ballot %v: %s", name, v.Slot, v.Accept.Ballot, batchText(v.Accept.Value))
	case wire.Decided:
		var b strings.Builder
		for i, value := range v.Values {
			fmt.Fprintf(&b, " %d: %s", v.First+uint64(i), batchText(value))
		}
		return name + b.String()
	case wire.Snapshot:
		return fmt.Sprintf("%s of %d bytes", name, len(v.State))
	case wire.Submit:
		return name + " " + batchText(v.Batch)
	}
	return fmt.Sprintf("%s%+v", name, b)
}
