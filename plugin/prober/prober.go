// Package prober asks the LAN about an address before a container gets it, on networks that want it (probe=arp, probe=strict), and keeps
// back what another device has. It finds out where one device answers for every address, and says where nobody can be asked.
//
// It refuses to know how a packet is sent, and who gets which address.
package prober

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/arp"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/metrics"
)

const (
	// maxStrangers is how many addresses are tried for one request. So many
	// that something else has are no matter of luck.
	maxStrangers = 32
	// probeTime is what must be left of a request's time for another probe:
	// its own, and what it takes to write down and deliver what follows.
	probeTime = arp.Duration + time.Second
)

// Prober has the wire asked about addresses that were granted, for networks
// that want it (probe=arp). Safe for concurrent use.
type Prober struct {
	node  *node.Node
	ask   func(ctx context.Context, a netip.Addr) (arp.MAC, error)
	count func(result string)
	fault *fault.Fault
	// barred is what is wrong where a network wants probes, and this process has
	// given up the right to send them.
	barred *fault.Fault
	// gaveUp says that it has. It is set before the first request.
	gaveUp bool
	// proxied is what is wrong where one device answers for every address.
	proxied *fault.Fault
	proxies proxies
}

// Config is what a prober needs.
type Config struct {
	Node   *node.Node
	Ask    func(ctx context.Context, a netip.Addr) (arp.MAC, error) // nil: [arp.Probe]
	Count  func(result string)                                      // of a probe, as [metrics.Metrics.Probed] takes it; nil: nobody counts
	Logger *slog.Logger
}

// New returns a prober that may send.
func New(cfg Config) *Prober {
	if cfg.Ask == nil {
		cfg.Ask = arp.Probe
	}
	if cfg.Count == nil {
		cfg.Count = func(string) {}
	}
	logger := cfg.Logger
	text := func(err error) string {
		return fmt.Sprintf("the LAN cannot be asked whether addresses are in use (probe=arp): %v; they are handed out all the same", err)
	}
	return &Prober{
		node: cfg.Node, ask: cfg.Ask, count: cfg.Count,
		fault: &fault.Fault{
			Logger: logger, Code: "probe-failed", Text: text,
			Next: "give this host an address in the network's subnet, or a default route, the plugin its capability CAP_NET_RAW, and RINGLET_TIMEOUT two seconds or more; the next probe tries again",
		},
		proxied: &fault.Fault{
			Logger: logger, Code: "proxy-arp",
			Text: func(err error) string {
				return fmt.Sprintf("%v, so that probe=arp finds no other device; addresses are handed out all the same", err)
			},
			Next: "end proxy ARP on that device; or create the network with probe=strict, and ringlet refuses containers there",
		},
		barred: &fault.Fault{
			Logger: logger, Code: "probe-needs-restart", Text: text,
			Next: "restart ringlet on this host: docker plugin disable --force, then docker plugin enable; outside Docker systemctl restart ringlet",
		},
	}
}

// Grant grants an address that nothing else on the LAN answers for, as far as
// that can be told in the time that the request has. One that something answers
// for is kept back, and the request is served again: it gets another address,
// or the reason why it cannot have the one that it names.
func (p *Prober) Grant(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	var last arp.MAC
	for range maxStrangers {
		g, err := p.node.RequestAddress(ctx, r)
		if err != nil || !wantsProbe(r, g) {
			return g, err
		}
		if last = p.answers(ctx, g.Address.Addr()); last == (arp.MAC{}) {
			return g, nil
		}
		if p.answersForAll(ctx, &r, &g, last) {
			if r.Network.Probe != ipam.ProbeStrict {
				return g, nil
			}
			return ipam.AddressGrant{}, errors.Join(errProxied(&r, last), p.node.Withdraw(context.WithoutCancel(ctx), g.Ticket))
		}
		// Also if the engine has gone: the address is not free.
		if err := p.node.Stranger(context.WithoutCancel(ctx), g.Ticket, last); err != nil {
			return ipam.AddressGrant{}, err
		}
	}
	return ipam.AddressGrant{}, &ipam.Error{Kind: ipam.ErrNoAddress, Text: fmt.Sprintf(
		"other devices on the network have each of the %d addresses of %v that were tried, the last with MAC %v: see ringlet status, and keep them out of the pool with --ip-range or --aux-address, or create the network without probe=arp",
		maxStrangers, r.Network.Pool, ipam.MAC(last))}
}

// wantsProbe reports whether the wire is to be asked about a grant. One that
// was held before is in use; so is that of an endpoint which the engine
// replays, and which would answer itself.
func wantsProbe(r ipam.AddressRequest, g ipam.AddressGrant) bool {
	return r.Network.Probe != ipam.ProbeNone && r.Purpose != ipam.ForUnmarked && !g.Ticket.IsZero() && g.Address.Addr().Is4()
}

// errNoTimeToProbe says that a request does not have the time that a probe takes.
var errNoTimeToProbe = fmt.Errorf("a request has less than the %v that a probe takes, because of RINGLET_TIMEOUT", probeTime)

// answers returns the MAC of what answers for an address, the zero MAC if
// nothing does or nobody could be asked.
func (p *Prober) answers(ctx context.Context, a netip.Addr) arp.MAC {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < probeTime {
		p.count(metrics.ProbeFailed)
		p.fault.Set(errNoTimeToProbe)
		return arp.MAC{}
	}
	if p.gaveUp {
		p.count(metrics.ProbeFailed)
		p.barred.Set(errGaveUp)
		return arp.MAC{}
	}
	mac, err := p.ask(ctx, a)
	switch {
	case err != nil:
		p.count(metrics.ProbeFailed)
	case mac == arp.MAC{}:
		p.count(metrics.ProbeQuiet)
		p.proxies.quiet()
		p.proxied.Set(nil)
	default:
		p.count(metrics.ProbeAnswered)
	}
	if err == nil || ctx.Err() == nil { // that whoever asked has gone is no fault
		p.fault.Set(err)
	}
	return mac
}

// Problems returns what an operator should know. It is no problem any more
// that the LAN could not be asked when no network wants that.
func (p *Prober) Problems(networks []ipam.NetStatus) []ipam.Problem {
	wanted := wantProbes(networks)
	if !wanted {
		p.fault.Set(nil)
		p.proxied.Set(nil)
	}
	if wanted && p.gaveUp {
		p.barred.Set(errGaveUp)
	} else {
		p.barred.Set(nil)
	}
	var out []ipam.Problem
	for _, f := range []*fault.Fault{p.fault, p.proxied, p.barred} {
		if problem, wrong := f.Problem(); wrong {
			out = append(out, problem)
		}
	}
	return out
}

// GaveUp reports whether this process has given up the right to send probes.
func (p *Prober) GaveUp() bool { return p.gaveUp }

// GiveUp takes note that an earlier prober of this process has given up that right. It is called before the first request.
func (p *Prober) GiveUp() { p.gaveUp = true }
