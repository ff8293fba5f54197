// Package decided sees to it that what people have decided outlives the database: it keeps the file of package decisions up to date, and
// believes it when the database is lost. Where the file is lost, too, nothing new is handed out on LANs until an operator says so.
//
// It refuses to know what is decided, and how a peer founds its cluster with it.
package decided

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/decisions"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
	"github.com/ringlet/ringlet/plugin/networks"
)

const (
	// decidedEvery is how often it is looked whether people have decided something: on another host, or with a network.
	decidedEvery = 2 * time.Second
	// toldAgain is for how long it is told that the decisions were read from the file.
	toldAgain = 24 * time.Hour
)

// Keeper keeps what people have decided in a file beside the database. If the database is lost, and no other peer is left
// to learn from, that file is all there is. Without it nothing new is handed out on LANs, until an operator says so. Safe for
// concurrent use; use [Open]. A nil one does nothing.
type Keeper struct {
	path    string
	host    string
	version string
	node    Node // nil until a node is there
	logger  *slog.Logger
	Fault   *fault.Fault // the file cannot be written
	lans    networks.LANs

	unsure  atomic.Bool // nothing new is handed out on LANs
	founded atomic.Bool // this host has founded a cluster since the file was written

	mu     sync.Mutex
	file   decisions.File // as it is on disk
	there  bool           // there is a file
	fresh  bool           // the database was a new one, and nothing was written since
	awaits bool           // there will be a list of the engine, or the database is known to be lost
	listed bool           // the engine has listed its networks since this process began
	lacks  bool           // the first list had no LAN
	unseen bool           // nothing new is handed out on LANs, and the first list, which is still to come, will tell whether there are any
	saved  ipam.Decided   // what of it is on disk: the cluster and the slot
}

// Node is what [Keeper] asks of a node.
type Node interface {
	Decided(ctx context.Context, since ipam.Decided) (*ipam.Decided, error)
}

// Open reads the file in the directory of a database. One that is damaged is set aside. host is the name of this one, and version that of
// ringlet: the file has both.
func Open(dir, host, version string, logger *slog.Logger) (*Keeper, error) {
	d := &Keeper{
		path: filepath.Join(dir, decisions.FileName), host: host, version: version, logger: logger,
		Fault: &fault.Fault{
			Logger: logger, Code: "decisions-not-saved",
			Text: func(err error) string {
				return fmt.Sprintf("pools, exclusions and reservations are in the database alone, because their copy %s cannot be written: %v", decisions.FileName, err)
			},
			Next: "see to the disk with the plugin's data; ringlet tries again every few seconds",
		},
	}
	file, err := decisions.Read(d.path)
	if errors.Is(err, decisions.ErrDamaged) {
		logger.Error("copy of the decisions set aside", slog.String("path", d.path), logattr.Err(err))
		return d, os.Rename(d.path, d.path+".damaged")
	}
	if file != nil {
		d.file, d.there = *file, true
		d.unsure.Store(file.Unsure != "")
	}
	return d, err
}

// Known returns what a peer founds its cluster with if it has none; nil: nothing is known.
func (d *Keeper) Known() *ipam.Decided {
	if !d.there {
		return nil
	}
	return d.file.Decided()
}

// Shared reports whether the file is of a cluster with other peers.
func (d *Keeper) Shared() bool { return d.there && d.file.Peers > 1 }

// Keeps reports whether there is a file, which a peer founds its cluster with if it has none.
func (d *Keeper) Keeps() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.there
}

// Founded notes that this host founds a cluster: before [Keeper.Of], if it does as its database is opened. That may be a later start
// than the first one with a new database.
func (d *Keeper) Founded() { d.founded.Store(true) }

// Of begins to keep what is decided in the cluster of a node. fresh says that its database was a new one; awaits, that the
// engine will list what it has, or that the database was damaged.
func (d *Keeper) Of(ctx context.Context, n Node, fresh, awaits bool) {
	now, err := n.Decided(ctx, ipam.Decided{})
	d.mu.Lock()
	d.node, d.fresh, d.awaits = n, fresh || err == nil && now == nil, awaits
	d.mu.Unlock()
	d.Save(ctx)
}

// Save writes down what is decided, if that is news. What cannot be written is a fault, and tried again.
func (d *Keeper) Save(ctx context.Context) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := d.node.Decided(ctx, d.saved)
	switch {
	case err != nil || now == nil || now.Slot == 0: // the node has stopped, or is in no cluster: the file has what was decided last
	case now.Left:
		d.saved = *now
		if err := os.Remove(d.path); err == nil {
			d.file, d.there = decisions.File{}, false
		}
	default:
		d.Fault.Set(d.put(now))
	}
}

// put brings what is decided to the file. mu is held.
func (d *Keeper) put(now *ipam.Decided) error {
	next := d.file
	next.Put(now)
	switch founded := (d.fresh || d.founded.Load()) && now.Peers == 1; {
	case founded && d.there:
		if next.Unsure != "" {
			next.Unsure = next.Cluster // which nobody has ended
		}
		next.Lost = time.Now().UTC()
		d.logger.Warn("decisions read again, because the database was lost", slog.String("path", d.path), slog.Time("written", d.file.At), slog.Int("pools", len(d.file.Pools)))
	case founded && d.awaits && !d.lacks:
		next.Unsure, d.unseen = next.Cluster, !d.listed
	case next.Unsure != next.Cluster:
		next.Unsure = "" // this host has joined another cluster, and learned what is decided there
	}
	if err := d.write(next); err != nil {
		return err
	}
	d.saved, d.fresh = *now, false
	d.founded.Store(false)
	return nil
}

// write replaces the file, if it would have something else. mu is held.
func (d *Keeper) write(next decisions.File) error {
	if d.there && next.Same(&d.file) {
		return nil
	}
	next.At, next.Version, next.Host, next.Holders = time.Now().UTC(), d.version, d.host, []struct{}{}
	if err := next.Write(d.path); err != nil {
		return err
	}
	d.file, d.there = next, true
	d.unsure.Store(next.Unsure != "")
	return nil
}

// Run looks for decisions until ctx ends. pause rounds the time between.
func (d *Keeper) Run(ctx context.Context, pause func(time.Duration) time.Duration) error {
	for {
		d.Save(ctx)
		if !backoff.Sleep(ctx, pause(decidedEvery), nil) {
			return nil
		}
	}
}

// Unsure reports whether nothing new is handed out on LANs.
func (d *Keeper) Unsure() bool { return d != nil && d.unsure.Load() }

// Trust ends that nothing new is handed out on LANs.
func (d *Keeper) Trust() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.file
	next.Unsure = ""
	return d.write(next)
}

// See takes in a complete list of the engine. The networks in the first one are older than the database: a host makes no
// network before it has a cluster, and it founds none for some seconds, in which it looks for one.
func (d *Keeper) See(list []dockerd.Network) {
	known, private := networks.LANsOf(list)
	d.lans.See(known, private)
	d.mu.Lock()
	if !d.listed {
		d.listed, d.lacks = true, len(known) == 0
	}
	trusts := d.unseen && d.lacks
	d.unseen = false
	d.mu.Unlock()
	if trusts {
		d.Fault.Set(d.Trust())
	}
}

// Refuses returns why nothing new is handed out in a pool; nil: it is.
func (d *Keeper) Refuses(pool netip.Prefix) error {
	if !d.Unsure() || !d.lans.MayBe(pool) {
		return nil
	}
	return &ipam.Error{Kind: ipam.ErrSuspended, Text: fmt.Sprintf(
		"ringlet on %s hands out nothing new in %v, because it may be a LAN: the database was lost, and with it which addresses operators excluded and reserved there; restore them, then run ringlet trust, see ringlet status", d.host, pool)}
}

// RefusesRequest is Refuses for what an engine asks. What it names for a network, or asks again for, is in use; of the first
// address of a new network nothing tells yet what that is for.
func (d *Keeper) RefusesRequest(r *ipam.AddressRequest) error {
	if r.Purpose == ipam.ForContainer {
		return d.Refuses(r.Network.Pool)
	}
	return nil
}

// Problem returns what an operator should know; false if nothing is wrong.
func (d *Keeper) Problem() (ipam.Problem, bool) {
	if d == nil {
		return ipam.Problem{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if names := d.lans.Names(); d.file.Unsure != "" && len(names) > 0 {
		return ipam.Problem{
			Code: "decisions-lost", Level: string(ipam.Failed),
			Text: fmt.Sprintf("this host hands out nothing new on %s: its database was lost, and with it which addresses operators excluded and reserved on that LAN", strings.Join(names, ", ")),
			Next: "restore them with ringlet snapshot restore, or with ringlet exclude add and ringlet reserve add; then run ringlet trust on this host",
		}, true
	}
	if age := time.Since(d.file.Lost); !d.file.Lost.IsZero() && age < toldAgain {
		return ipam.Problem{
			Code: "decisions-restored", Level: string(ipam.Fine),
			Text: fmt.Sprintf("the database of this host was lost; pools, exclusions and reservations were read again from %s at %s", decisions.FileName, d.file.Lost.Format("2006-01-02 15:04 MST")),
			Next: "none is needed; ringlet exclude ls and ringlet reserve ls show them, and this note ends by itself after a day",
		}, true
	}
	return ipam.Problem{}, false
}

// Restored reports whether the decisions were read again from the file.
func (d *Keeper) Restored() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.file.Lost.IsZero()
}
