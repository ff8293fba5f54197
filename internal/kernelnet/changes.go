package kernelnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Changes is what the kernel tells of addresses that come to interfaces of the
// host, or go from them (rtnetlink(7)). It has told of a change before the call that
// makes it returns; of an IPv6 address once the kernel knows that no other host on the
// link has it, a second or two later. Safe for concurrent use.
type Changes struct {
	file *os.File
	conn syscall.RawConn

	counts func(netip.Addr) bool

	mu   sync.Mutex // who reads also counts: nobody finds nothing to read before that is counted
	buf  []byte
	told uint64
}

// OpenChanges has the kernel tell from now on. An address for which counts is false does not count.
func OpenChanges(counts func(netip.Addr) bool) (*Changes, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	n := &Changes{file: os.NewFile(uintptr(fd), "rtnetlink"), counts: counts, buf: make([]byte, 32<<10)}
	groups := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR}
	if err := unix.Bind(fd, groups); err != nil {
		n.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	if n.conn, err = n.file.SyscallConn(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close has the kernel tell no more.
func (n *Changes) Close() { _ = n.file.Close() } // nothing was written to it

// Count returns how many changes the kernel has told of by now.
func (n *Changes) Count() uint64 {
	_ = n.conn.Control(func(fd uintptr) { _, _ = n.take(int(fd)) }) // wait has the error
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told
}

// Wait returns when the kernel tells of a change, unless [Changes.Count] was
// first to hear of it. It fails when ctx has ended, or the kernel tells no more.
func (n *Changes) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = n.file.SetReadDeadline(time.Unix(1, 0)) }) // never fails for a socket
	defer stop()
	var ended error
	err := n.conn.Read(func(fd uintptr) (done bool) {
		done, ended = n.take(int(fd))
		return done || ended != nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, ended)
}

// take reads what the kernel has told, without waiting for more, and reports whether
// that was of a change.
func (n *Changes) take(fd int) (changed bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.told
	for {
		size, err := unix.Read(fd, n.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return n.told != before, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // more came than was read, and some is lost
			n.told++
		case err != nil:
			return n.told != before, fmt.Errorf("read what the kernel tells: %w", err)
		case n.tellsOfAddress(n.buf[:size]):
			n.told++
		}
	}
}

// tellsOfAddress reports whether messages of the kernel are about an address that
// counts.
func (n *Changes) tellsOfAddress(b []byte) bool {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return true // to look costs little
	}
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWADDR && m.Header.Type != unix.RTM_DELADDR {
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return true
		}
		for _, a := range attributes {
			// On a line with two ends the one is the other end's, and IFA_LOCAL the host's.
			is := a.Attr.Type == unix.IFA_ADDRESS || a.Attr.Type == unix.IFA_LOCAL
			if at, ok := netip.AddrFromSlice(a.Value); ok && is && n.counts(at) {
				return true
			}
		}
	}
	return false
}
