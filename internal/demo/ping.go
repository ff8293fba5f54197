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
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// A family is what differs between ICMP for IPv4 (RFC 792) and IPv6 (RFC 4443).
type family struct {
	network, listen string
	protocol        int // of the IP header, for icmp.ParseMessage
	request, reply  icmp.Type
}

func familyOf(a netip.Addr) family {
	if a.Is4() || a.Is4In6() {
		return family{"ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	}
	return family{"ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
}

// ping sends count echo requests one after the other and waits up to limit for each answer. It fails when none came.
func ping(ctx context.Context, to netip.Addr, count int, limit time.Duration, out io.Writer) error {
	to = to.Unmap()
	f := familyOf(to)
	conn, err := icmp.ListenPacket(f.network, f.listen)
	if err != nil {
		return fmt.Errorf("open a raw socket (needs the capability NET_RAW): %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })() // ends a wait at once

	answers := 0
	var last error
	for seq := range count {
		begun := time.Now()
		if last = echo(conn, f, to, seq, begun.Add(limit)); ctx.Err() != nil {
			return ctx.Err()
		} else if last != nil {
			continue
		}
		answers++
		fmt.Fprintf(out, "answer from %s in %v\n", to, time.Since(begun).Round(time.Microsecond))
	}
	if answers == 0 {
		return fmt.Errorf("no answer from %s to %d requests: %w", to, count, last)
	}
	return nil
}

// echo sends one request and returns when its answer has come.
func echo(conn *icmp.PacketConn, f family, to netip.Addr, seq int, deadline time.Time) error {
	id := os.Getpid() & 0xffff
	request := icmp.Message{Type: f.request, Body: &icmp.Echo{ID: id, Seq: seq, Data: []byte("ringlet demo")}}
	packet, err := request.Marshal(nil) // the kernel adds the checksum of ICMPv6
	if err != nil {
		return err
	}
	if _, err := conn.WriteTo(packet, &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()}); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("the time is over")
		}
		if err != nil {
			return err
		}
		// A raw socket shows every ICMP packet of the container, our own requests to ourselves too.
		answer, err := icmp.ParseMessage(f.protocol, buf[:n])
		if err != nil || answer.Type != f.reply {
			continue
		}
		body, ok := answer.Body.(*icmp.Echo)
		source, isIP := from.(*net.IPAddr)
		if ok && isIP && body.ID == id && body.Seq == seq && source.IP.Equal(to.AsSlice()) {
			return nil
		}
	}
}
