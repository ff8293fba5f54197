package arp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socket sends and receives ARP packets on one interface.
type socket struct {
	file *os.File
	to   unix.SockaddrLinklayer // everybody
}

// open returns a socket on an interface. Whoever opens it must close it.
func open(index int) (*socket, error) {
	// A socket with a protocol hears all interfaces until it is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "arp"), to: unix.SockaddrLinklayer{
		Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: index,
		Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: s.to.Protocol, Ifindex: index}); err != nil {
		_ = s.close() // it was not used
		return nil, fmt.Errorf("bind a packet socket: %w", err)
	}
	return s, nil
}

func (s *socket) close() error { return s.file.Close() }

// send broadcasts a packet. The kernel writes the frame's header.
func (s *socket) send(p packet) error {
	if err := write(s.file, p.encode(), &s.to); err != nil {
		return fmt.Errorf("send a probe: %w", err)
	}
	return nil
}

// write sends what a packet socket takes, a packet or a whole frame.
func write(f *os.File, b []byte, to unix.Sockaddr) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = conn.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), b, 0, to)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, sent)
}

// receive returns the next packet that is ARP for IPv4, and an error that
// wraps [os.ErrDeadlineExceeded] if none has come by then.
func (s *socket) receive(until time.Time) (packet, error) {
	if err := s.file.SetReadDeadline(until); err != nil {
		return packet{}, err
	}
	var buf [64]byte // what is longer is cut
	for {
		n, err := s.file.Read(buf[:])
		if err != nil {
			return packet{}, fmt.Errorf("wait for answers: %w", err)
		}
		if p, ok := decode(buf[:n]); ok {
			return p, nil
		}
	}
}

// networkOrder returns a number as the kernel takes it in network order.
func networkOrder(n uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], n)
	return binary.NativeEndian.Uint16(b[:])
}
