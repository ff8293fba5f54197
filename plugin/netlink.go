package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listen has the addresses read as soon as one comes to an interface of the host,
// or goes from it, until ctx ends. Where the kernel does not tell, they are read
// every [hostInterval] alone.
func (h *host) listen(ctx context.Context) error {
	err := addressNews(ctx, func() {
		select {
		case h.news <- struct{}{}:
		default: // it is to be read already
		}
	})
	if err != nil && ctx.Err() == nil {
		h.logger.Warn("the kernel does not tell of new addresses on this host's interfaces; they are looked for now and then", slog.Any("err", err))
	}
	<-ctx.Done()
	return nil
}

// addressNews calls changed when an address has come to an interface of the host,
// or has gone from it, until ctx ends (rtnetlink(7)).
func addressNews(ctx context.Context, changed func()) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "rtnetlink")
	defer f.Close()
	groups := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR}
	if err := unix.Bind(fd, groups); err != nil {
		return os.NewSyscallError("bind", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // never fails for a socket
	defer stop()
	changed() // what came before is told of nowhere
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS): // more came than was read, and some is lost
			changed()
		case err != nil:
			return fmt.Errorf("read what the kernel tells: %w", err)
		case tellsOfAddress(buf[:n]):
			changed()
		}
	}
}

// tellsOfAddress reports whether messages of the kernel are about an address that
// counts. Each container brings a link-local one, which does not.
func tellsOfAddress(b []byte) bool {
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
			if at, ok := netip.AddrFromSlice(a.Value); ok && a.Attr.Type == unix.IFA_ADDRESS && countsAsHost(at) {
				return true
			}
		}
	}
	return false
}
