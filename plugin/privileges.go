package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/fault"
)

// confine gives up what this process never needs of the rights of root, which is all but CAP_NET_RAW.
// What could not be given up becomes a problem of the status ([prober.confine]).
func confine(opts cli.ServeOptions) cli.ServeOptions {
	drop := opts.Drop
	if drop == nil {
		return opts
	}
	kept := drop(true)
	opts.Drop = func(keepNetRaw bool) error {
		if kept != nil || keepNetRaw {
			return kept
		}
		return drop(false)
	}
	return opts
}

// announces reports whether this process announces containers to their
// neighbours, which takes CAP_NET_RAW (RINGLET_ANNOUNCE).
func announces(cfg config.Config) bool { return cfg.Announce }

// confine gives up CAP_NET_RAW, too, where nothing needs it: no network of this host has probe=arp, and no container
// is announced. A network with probes that is made later has none until a restart. It returns the fault of a process
// that could not give up its rights, and goes on with them.
func (p *prober) confine(ctx context.Context, opts cli.ServeOptions, announces bool) (*fault.Fault, error) {
	f := &fault.Fault{
		Logger: p.fault.Logger, Code: "rights-kept",
		Text: func(err error) string {
			return fmt.Sprintf("this process has rights of root that it does not need: %v", err)
		},
		Next: "ringlet serves as well as without them, and a fault in it could do more harm; take a build of make build, and a kernel that lets a process give up capabilities",
	}
	if opts.Drop == nil {
		return f, nil
	}
	st, err := p.node.Status(ctx)
	if err != nil {
		return nil, err
	}
	keep := announces || wantProbes(st.Networks)
	err = opts.Drop(keep)
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

// openKeys returns the fault of a key file that others than its owner may
// read or replace. It is looked at whenever somebody asks for the status, as the
// file can be replaced at any time. Who may reach the folder above it is not
// looked at: inside a managed plugin that cannot be seen.
func openKeys(cfg config.Config, logger *slog.Logger) *fault.Fault {
	return &fault.Fault{
		Logger: logger, Code: "keys-open",
		Look: func() error {
			if cfg.KeyFile == "" {
				return nil
			}
			info, err := os.Stat(cfg.KeyFile)
			if err != nil || info.Mode().Perm()&othersMay == 0 {
				return nil //nolint:nilerr // of a file that is not there the network tells
			}
			return fmt.Errorf("mode %04o", info.Mode().Perm())
		},
		Text: func(err error) string {
			return fmt.Sprintf("other users than its owner may use the file of the cluster's keys, %s (%v), and a key admits any machine as a peer", cfg.KeyFile, err)
		},
		Next: "run chmod 600 on the file, under its path on the host; if another user may have read it, replace the key with ringlet keys rotate",
	}
}

// othersMay are the mode bits of a file that let others than its owner use it.
const othersMay fs.FileMode = 0o077

// errGaveUp says why the wire is not asked.
var errGaveUp = errors.New("no network had probe=arp when this process started, so it gave up CAP_NET_RAW")
