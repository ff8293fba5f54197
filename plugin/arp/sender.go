package arp

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendTime is how long a frame may wait for room in the interface's queue.
const sendTime = time.Second

// A Sender sends frames about addresses of containers, on any interface, and hears nothing. Use [OpenSender]. It is safe for
// concurrent use.
type Sender struct{ file *os.File }

// OpenSender opens the socket, which takes the capability CAP_NET_RAW: without it the error is an [fs.ErrPermission]. Whoever
// opens it must close it.
func OpenSender() (*Sender, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // 0: it hears nothing
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	return &Sender{file: os.NewFile(uintptr(fd), "announcements")}, nil
}

// Close closes the socket.
func (s *Sender) Close() error { return s.file.Close() }

// Announce tells all on an interface that an address has a MAC: by an ARP announcement, or an unsolicited neighbour
// advertisement for IPv6. The frame comes from that MAC: so switches learn where it is, and those that compare frame and
// packet let it pass.
func (s *Sender) Announce(index int, a netip.Addr, mac MAC) error {
	to, protocol := everybody, uint16(unix.ETH_P_ARP)
	var frame []byte
	var err error
	if a.Is6() {
		to, protocol = multicastMAC(allNodes), unix.ETH_P_IPV6
		frame, err = advertisementOf(a, mac)
	} else {
		frame = announcementOf(a, mac).frame(to, mac)
	}
	if err == nil {
		err = s.send(index, protocol, to, frame)
	}
	if err != nil {
		return fmt.Errorf("announce %v: %w", a, err)
	}
	return nil
}

// Ask asks the one with a MAC whether it has an address, by a probe from the interface's own MAC. The answer is for the
// kernel of this host, which takes over what it knew otherwise; for IPv6 it is for all on the link.
func (s *Sender) Ask(index int, a netip.Addr, mac, own MAC) error {
	protocol := uint16(unix.ETH_P_ARP)
	var frame []byte
	var err error
	if a.Is6() {
		protocol = unix.ETH_P_IPV6
		frame, err = probe6For(a, mac, own)
	} else {
		frame = probeFor(a, own).frame(mac, own)
	}
	if err == nil {
		err = s.send(index, protocol, mac, frame)
	}
	if err != nil {
		return fmt.Errorf("ask who has %v: %w", a, err)
	}
	return nil
}

func (s *Sender) send(index int, protocol uint16, to MAC, frame []byte) error {
	if err := s.file.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	return write(s.file, frame, &unix.SockaddrLinklayer{
		Protocol: networkOrder(protocol), Ifindex: index, Halen: 6, Addr: [8]byte{to[0], to[1], to[2], to[3], to[4], to[5]},
	})
}
