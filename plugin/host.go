package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/node"
)

const (
	// hostInterval is how often the host's own addresses are read when nothing
	// else asks for it.
	hostInterval = 20 * time.Second
	// hostRetry is how soon they are read again when they could not be.
	hostRetry = 2 * time.Second
	// hostFresh is for how long a reading is new enough for a network whose
	// subnet is named: an engine that starts asks for all of its networks at once.
	hostFresh = 100 * time.Millisecond
)

// host tells the node which addresses the host has on its interfaces: the
// gateways of bridges, and its own on a LAN that a pool covers. While they
// cannot be read the node goes by those that it was told last, which it holds
// on disk: an address that it does not hear of is not free for that. Safe for
// concurrent use.
type host struct {
	node  *node.Node
	read  func() ([]net.Addr, error)
	fault *fault
	turn  chan struct{} // full while one reads: an older reading must not come after a newer
	news  chan struct{} // full when they have changed
	at    time.Time     // of the last reading; who reads has it

	logger *slog.Logger
}

func newHost(n *node.Node, logger *slog.Logger) *host {
	return &host{node: n, read: net.InterfaceAddrs, turn: make(chan struct{}, 1), news: make(chan struct{}, 1), logger: logger, fault: &fault{
		logger: logger, code: "interfaces-unreadable",
		text: func(err error) string {
			return fmt.Sprintf("the addresses on this host's interfaces cannot be read (%v); those that were known before are still kept from containers, later ones are not", err)
		},
		next: "see whether the host has run out of file descriptors or memory; they are read again every few seconds",
	}}
}

// watch tells the node when something has changed, as far as that is known, and now
// and then, until ctx ends or the node has failed.
func (h *host) watch(ctx context.Context) error {
	for {
		pause := hostInterval
		if _, wrong := h.fault.problem(); wrong {
			pause = hostRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.news:
		case <-time.After(pause):
		}
		if err := h.tell(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// tell reads the addresses and tells the node. Its errors are the node's, or say
// that ctx has ended.
func (h *host) tell(ctx context.Context) error { return h.tellUnless(ctx, 0) }

// tellUnless is tell, unless that was done less than fresh ago.
func (h *host) tellUnless(ctx context.Context, fresh time.Duration) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	at := time.Now()
	if since := at.Sub(h.at); since >= 0 && since < fresh {
		return nil
	}
	h.at = at
	found, err := h.read()
	h.fault.set(err)
	if err != nil {
		return nil // it is a problem of the status, and no reason to end
	}
	var addresses []netip.Prefix
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !countsAsHost(p.Addr()) {
			continue
		}
		addresses = append(addresses, p)
	}
	return h.node.HostAddresses(ctx, at, addresses)
}

// countsAsHost reports whether an address on an interface can be one of a pool.
func countsAsHost(a netip.Addr) bool { return !a.IsLoopback() && !a.IsLinkLocalUnicast() }
