package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/plugin/fault"
)

// Confine gives up CAP_NET_RAW by drop where nothing needs it: no network of this host has probe=arp, and no container
// is announced. A network with probes that is made later has none until a restart. It returns the fault of a process
// that could not give up its rights, and goes on with them.
func (p *Prober) Confine(ctx context.Context, drop func(keepNetRaw bool) error, announces bool) (*fault.Fault, error) {
	f := &fault.Fault{
		Logger: p.fault.Logger, Code: "rights-kept",
		Text: func(err error) string {
			return fmt.Sprintf("this process has rights of root that it does not need: %v", err)
		},
		Next: "ringlet serves as well as without them, and a fault in it could do more harm; take a build of make build, and a kernel that lets a process give up capabilities",
	}
	if drop == nil {
		return f, nil
	}
	st, err := p.node.Status(ctx)
	if err != nil {
		return nil, err
	}
	keep := announces || wantProbes(st.Networks)
	err = drop(keep)
	p.gaveUp = !keep && err == nil
	f.Set(err)
	return f, nil
}

// wantProbes reports whether any of the networks has probe=arp.
func wantProbes(networks []ipam.NetStatus) bool {
	return slices.ContainsFunc(networks, func(n ipam.NetStatus) bool {
		net, err := poolid.Parse(n.ID)
		return err == nil && net.Probe != ipam.ProbeNone
	})
}

// errGaveUp says why the wire is not asked.
var errGaveUp = errors.New("no network had probe=arp when this process started, so it gave up CAP_NET_RAW")
