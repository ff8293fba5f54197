package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
)

// watch sends an echo request every so often until ctx ends or nobody reads out any more, and prints when each answer came,
// as RFC 3339 with nanoseconds, one a line. That a request cannot be sent is no failure: the one after it may be.
func watch(ctx context.Context, to netip.Addr, every time.Duration, out io.Writer) error {
	to = to.Unmap()
	f := familyOf(to)
	conn, err := icmp.ListenPacket(f.network, f.listen)
	if err != nil {
		return fmt.Errorf("open a raw socket (needs the capability NET_RAW): %w", err)
	}
	defer conn.Close()
	id := os.Getpid() & 0xffff
	for seq := 0; ctx.Err() == nil; seq++ {
		request := icmp.Message{Type: f.request, Body: &icmp.Echo{ID: id, Seq: seq & 0xffff, Data: []byte("ringlet demo")}}
		packet, err := request.Marshal(nil)
		if err != nil {
			return err
		}
		next := time.Now().Add(every)
		_, _ = conn.WriteTo(packet, &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()})
		if err := answers(conn, f, to, id, next, out); err != nil {
			return err
		}
	}
	return nil
}

// answers prints the answers that come by then.
func answers(conn *icmp.PacketConn, f family, to netip.Addr, id int, until time.Time, out io.Writer) error {
	if err := conn.SetReadDeadline(until); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := icmp.ParseMessage(f.protocol, buf[:n])
		if err != nil || answer.Type != f.reply {
			continue
		}
		body, ok := answer.Body.(*icmp.Echo)
		if source, isIP := from.(*net.IPAddr); !ok || !isIP || body.ID != id || !source.IP.Equal(to.AsSlice()) {
			continue
		}
		if _, err := fmt.Fprintln(out, time.Now().Format(time.RFC3339Nano)); err != nil {
			return err
		}
	}
}
