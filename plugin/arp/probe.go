package arp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
)

const (
	// probes is how many a [Probe] sends (PROBE_NUM of RFC 5227, 1.1).
	probes = 3
	// patience is how long it waits for answers after each of them.
	patience = 200 * time.Millisecond

	// Duration is how long a [Probe] takes if nothing answers.
	Duration = probes * patience
)

// Probe asks on the LAN whether anything has an IPv4 address, and returns the
// MAC of what answers first, the zero MAC if nothing does. It needs the
// capability CAP_NET_RAW, and fails with [ErrNoInterface] where there is nobody
// to ask. When ctx ends it gives up within 200 ms, with the error of ctx.
func Probe(ctx context.Context, a netip.Addr) (MAC, error) {
	if !a.Is4() {
		return MAC{}, fmt.Errorf("%v is no IPv4 address", a)
	}
	on, own, err := interfaceFor(a)
	if err != nil {
		return MAC{}, err
	}
	s, err := open(on.Index)
	if err != nil {
		return MAC{}, err
	}
	defer func() { _ = s.close() }() // nothing is left in it
	question := probeFor(a, MAC(on.HardwareAddr))
	for range probes {
		if err := ctx.Err(); err != nil {
			return MAC{}, err
		}
		if err := s.send(question); err != nil {
			return MAC{}, fmt.Errorf("%s: %w", on.Name, err)
		}
		mac, err := s.listen(a, own, time.Now().Add(patience))
		if err != nil {
			return MAC{}, fmt.Errorf("%s: %w", on.Name, err)
		}
		if mac != (MAC{}) {
			return mac, nil
		}
	}
	return MAC{}, nil
}

// listen returns the MAC of the first that claims the address by then and is
// not of this host, the zero MAC if nobody does.
func (s *socket) listen(a netip.Addr, own map[MAC]bool, until time.Time) (MAC, error) {
	for {
		p, err := s.receive(until)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return MAC{}, nil
		case err != nil:
			return MAC{}, err
		case p.claims(a) && p.senderMAC != (MAC{}) && !own[p.senderMAC]:
			return p.senderMAC, nil
		}
	}
}
