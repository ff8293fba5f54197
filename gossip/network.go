package gossip

import (
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/ipam/peer"
)

var _ datagram.Network = (*session)(nil)

// nodeAt is a peer that is there. memberlist may have forgotten it.
func nodeAt(id peer.ID, addr netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{
		Name: memberName(id), Addr: net.IP(addr.Addr().AsSlice()), Port: addr.Port(),
		PMax: memberlist.ProtocolVersionMax, // it reads checksums
	}
}

// SendDatagram implements [datagram.Network]. It sends to where a peer is, and to where it says that it is: the peer may
// have moved there just now, and if there are two of it both must hear that.
func (s *session) SendDatagram(to peer.ID, b []byte) bool {
	addr, known := s.g.table.addr(to)
	ok := known && s.list.SendBestEffort(nodeAt(to, addr), b) == nil
	if other, contested := s.g.diagnostics.elsewhere(to, time.Now()); contested && other != addr {
		_ = s.list.SendBestEffort(nodeAt(to, other), b)
	}
	return ok
}

// SendStream implements [datagram.Network].
func (s *session) SendStream(to peer.ID, b []byte) bool {
	addr, known := s.g.table.addr(to)
	return known && s.list.SendReliable(nodeAt(to, addr), b) == nil
}
