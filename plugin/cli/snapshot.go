package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/internal/durable"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/plugin/admin"
)

// snapshotFormat is the version of a snapshot's layout. Its fields are only
// ever added to.
const snapshotFormat = 1

// snapshot is what people have decided, and what no engine could tell: pools,
// what is kept back, and what is held outside Docker. It has neither the ID of
// a peer nor what space it owns: a peer that came back with old ones would hand
// out what others have by now.
type snapshot struct {
	Format       int                      `json:"format"`
	At           time.Time                `json:"at"`
	Version      string                   `json:"version"` // of the plugin
	Cluster      string                   `json:"cluster"` // for people
	Host         string                   `json:"host"`    // likewise; what is held is this host's alone
	Pools        []snapshotPool           `json:"pools"`
	Reservations []ipam.ReservationStatus `json:"reservations"`
	Holders      []snapshotHolder         `json:"holders"`
}

type snapshotPool struct {
	Pool   netip.Prefix `json:"pool"`
	Name   string       `json:"name"`
	Chosen bool         `json:"chosen"`           // for a network
	Origin string       `json:"origin,omitempty"` // as in [ipam.PoolStatus]; empty in files of older releases
}

// passing reports whether a pool is a network's alone, which makes it again: it is not
// restored. One that people have decided something about is.
func (s *snapshot) passing(p snapshotPool) bool {
	return p.Name == "" && (p.Chosen || p.Origin == "network") &&
		!slices.ContainsFunc(s.Reservations, func(r ipam.ReservationStatus) bool { return r.Pool == p.Pool }) &&
		!slices.ContainsFunc(s.Holders, func(h snapshotHolder) bool { return h.Pool == p.Pool })
}

// snapshotHolder is an address that something outside Docker holds.
type snapshotHolder struct {
	Pool    netip.Prefix `json:"pool"`
	Address netip.Addr   `json:"address"`
	For     string       `json:"for"`
}

func (a *app) snapshotCommand() *cobra.Command {
	snap := &cobra.Command{
		Use:        "snapshot",
		SuggestFor: []string{"backup", "dump", "export"},
		Short:      "Save, inspect or restore pools and reservations",
		GroupID:    groupPools,
		Long: `Save what the engine cannot tell ringlet again: the pools with their names, the
exclusions and reservations, and the addresses of this host that are held
outside Docker. Containers are not saved: after a loss the plugin takes them in
from the engine.

A snapshot is for the loss of all databases. While one host of the cluster
lives, it knows all this, and hosts that return learn it from there.

A snapshot is not a copy of the database, and does not have the ID of the peer.
A database from a backup would hand out addresses that other hosts hold by now,
and is refused.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	snap.AddCommand(&cobra.Command{
		Use:     "save FILE",
		Short:   "Save a snapshot",
		Long:    `Save a snapshot in FILE, as JSON. A file of that name is replaced as a whole.`,
		Example: "  ringlet snapshot save ringlet.json",
		Args:    exactly("FILE"),
		RunE:    a.do(a.saveSnapshot),
	}, &cobra.Command{
		Use:        "inspect FILE",
		SuggestFor: []string{"show", "ls", "cat"},
		Short:      "Show the contents of a snapshot",
		Example:    "  ringlet snapshot inspect ringlet.json",
		Args:       exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := readSnapshot(args[0])
			if err != nil {
				return err
			}
			return a.flushed(a.show(s, func() { a.view.snapshot(s) }))
		},
	}, a.snapshotRestoreCommand())
	for _, c := range snap.Commands() {
		c.ValidArgsFunction = files
	}
	return snap
}

func (a *app) snapshotRestoreCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:        "restore FILE",
		SuggestFor: []string{"load", "import", "apply"},
		Short:      "Recreate what the cluster lacks",
		Long: `Recreate the pools of a snapshot with their names, and its exclusions and
reservations. On the host that the snapshot is from, also recreate the holders
outside Docker. What exists stays as it is, so you can repeat the command. If
something cannot be restored, it is listed, and the rest is done.`,
		Example: "  ringlet snapshot restore ringlet.json --dry-run\n  ringlet snapshot restore ringlet.json",
		Args:    exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readSnapshot(args[0])
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.restore(ctx, c, s, dryRun) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be made")
	return cmd
}

func (a *app) saveSnapshot(ctx context.Context, c *client, args []string) error {
	var st ipam.Status
	var held []ipam.AddressStatus
	var kept []ipam.ReservationStatus
	var about admin.About
	for _, part := range []struct {
		path string
		into any
	}{{path("status"), &st}, {path("addresses"), &held}, {path("reservations"), &kept}, {path("about"), &about}} {
		if err := c.get(ctx, part.path, part.into); err != nil {
			return err
		}
	}
	if strings.Trim(st.Cluster, "0") == "" || st.State == ipam.Left {
		// It knows nothing, and what is in the file may be all that is left.
		return fmt.Errorf("there is nothing to save: %s is in no cluster, and %s stays as it is; save on a host that is in one, see ringlet status", st.Self.Name, args[0])
	}
	s := snapshot{
		Format: snapshotFormat, At: a.cfg.Now().UTC(), Version: about.Version, Cluster: st.Cluster, Host: st.Self.Name,
		Pools: []snapshotPool{}, Reservations: []ipam.ReservationStatus{}, Holders: []snapshotHolder{},
	}
	for _, p := range st.Pools {
		s.Pools = append(s.Pools, snapshotPool{p.Pool, p.Name, p.Chosen, p.Origin})
	}
	for _, r := range kept {
		if r.Kind == chronicle.KindExcluded.String() || r.Kind == chronicle.KindKeptForName.String() {
			r.Peer = "" // where it is now
			s.Reservations = append(s.Reservations, r)
		}
	}
	for _, h := range held {
		if isClients(h) {
			s.Holders = append(s.Holders, snapshotHolder{h.Pool, h.Address, h.Name})
		}
	}
	if err := writeSnapshot(args[0], s); err != nil {
		return err
	}
	return a.show(s, func() {
		a.view.printf("saved %s\n", safe(args[0]))
		a.view.snapshot(s)
	})
}

// replaceable returns the file that is to be replaced: of a link the one to which it
// leads. What is no file, as a pipe, must stay what it is.
func replaceable(file string) (string, error) {
	if file == "-" {
		return "", errors.New("name a file; with -o json the snapshot is printed, too")
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	info, err := os.Stat(file) // of /dev/stdout too, of which the link to a pipe has no path
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file: name one; with -o json the snapshot is printed, too", file)
	}
	return filepath.EvalSymlinks(file)
}

// writeSnapshot replaces the file by a whole one, which is on disk then, or leaves it
// as it is.
func writeSnapshot(file string, s snapshot) error {
	file, err := replaceable(file)
	if err != nil {
		return fmt.Errorf("the snapshot cannot be written: %w", err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("the snapshot cannot be written: %w", err)
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return fmt.Errorf("the snapshot cannot be written: %w", err)
	}
	if err := durable.Replace(file, append(text, '\n')); err != nil {
		return fmt.Errorf("the snapshot cannot be written: %w", err)
	}
	return nil
}

// source is how a file that is read is called.
func source(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// unreadable says what is wrong with a file that should be something else, in JSON.
func unreadable(file, what string, err error) error {
	file = source(file)
	_, broken := errors.AsType[*json.SyntaxError](err)
	_, other := errors.AsType[*json.UnmarshalTypeError](err)
	_, system := errors.AsType[*fs.PathError](err)
	switch {
	case system:
		return fmt.Errorf("the file cannot be read: %w", err)
	case broken:
		return fmt.Errorf("%s is not %s: it is not JSON, or was cut short", file, what)
	case other:
		return fmt.Errorf("%s is not %s: it has other contents", file, what)
	}
	return fmt.Errorf("%s is not %s: %w", file, what, err)
}

func readSnapshot(file string) (snapshot, error) {
	var s snapshot
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	switch {
	case err != nil:
		return s, unreadable(file, "a snapshot of ringlet", err)
	case s.Format < 1 || s.Format > snapshotFormat:
		return s, fmt.Errorf("%s is not a snapshot that this release can read: it has format %d, and this release knows %d", file, s.Format, snapshotFormat)
	}
	return s, nil
}

func (v view) snapshot(s snapshot) {
	v.facts("of", s.Host, "at", s.At.Format(time.RFC3339), "cluster", s.Cluster, "version", s.Version)
	v.printf("\n")
	for _, p := range s.Pools {
		what := ""
		if s.passing(p) {
			what = ", made for a network, not restored"
		}
		v.wrap(plain, "pool ", safe(strings.TrimSpace(p.Pool.String()+" "+p.Name))+what)
	}
	for _, r := range s.Reservations {
		v.wrap(plain, "reserved ", safe(stretch(r.First.String(), r.Last.String())+" "+r.Kind+" "+r.Note))
	}
	for _, h := range s.Holders {
		v.wrap(plain, "held ", safe(h.Address.String()+" by "+h.For))
	}
}

// restored is one thing that was made again, or not.
type restored struct {
	What  string `json:"what"`
	There bool   `json:"there"` // it is there already, as far as this peer knows
	Error string `json:"error"` // empty if it was made, or was there
}

// present is what this peer knows to be there already.
type present struct {
	status ipam.Status
	kept   []ipam.ReservationStatus
	held   []ipam.AddressStatus
}

func (n *present) read(ctx context.Context, c *client) error {
	if err := c.get(ctx, path("status"), &n.status); err != nil {
		return err
	}
	if err := c.get(ctx, path("reservations"), &n.kept); err != nil {
		return err
	}
	return c.get(ctx, path("addresses"), &n.held)
}

func (n *present) pool(want snapshotPool) bool {
	return slices.ContainsFunc(n.status.Pools, func(p ipam.PoolStatus) bool {
		return p.Pool == want.Pool && (want.Name == "" || p.Name == want.Name)
	})
}

// refusal returns why the cluster will not make a pool, as far as can be told without asking
// it: one without a name may make room for another. Empty if it may be made.
func (n *present) refusal(want snapshotPool) string {
	for _, p := range n.status.Pools {
		switch {
		case p.Name == "":
		case p.Pool == want.Pool && want.Name != "" && p.Name != want.Name:
			return "the pool exists, and has the name " + p.Name
		case p.Pool != want.Pool && p.Name == want.Name:
			return "the name belongs to the pool " + p.Pool.String()
		case p.Pool != want.Pool && p.Pool.Overlaps(want.Pool):
			return "it overlaps the pool " + poolTitle(p)
		}
	}
	return ""
}

// reservation reports whether all of a stretch is kept back so, in however many pieces.
func (n *present) reservation(want ipam.ReservationStatus) bool {
	pieces := slices.DeleteFunc(slices.Clone(n.kept), func(r ipam.ReservationStatus) bool {
		return r.Kind != want.Kind || r.Note != want.Note || r.Last.Compare(want.First) < 0
	})
	slices.SortFunc(pieces, func(a, b ipam.ReservationStatus) int { return a.First.Compare(b.First) })
	next := want.First
	for _, r := range pieces {
		switch {
		case r.First.Compare(next) > 0:
			return false
		case r.Last.Compare(want.Last) >= 0:
			return true
		}
		next = r.Last.Next()
	}
	return false
}

func (n *present) holder(want snapshotHolder) bool {
	return slices.ContainsFunc(n.held, func(h ipam.AddressStatus) bool {
		return isClients(h) && h.Address == want.Address && h.Pool == want.Pool && h.Name == want.For
	})
}

// restore makes what a snapshot has, in an order in which each needs what comes
// before.
func (a *app) restore(ctx context.Context, c *client, s snapshot, dryRun bool) error {
	var now present
	if err := now.read(ctx, c); err != nil {
		return err
	}
	done := []restored{}
	again := func(there bool, what, method, path string, body, answer any) {
		r := restored{What: strings.TrimSpace(what), There: there}
		if !dryRun && !there {
			if err := c.call(ctx, method, path, body, answer); err != nil {
				r.Error = err.Error()
			}
		}
		done = append(done, r)
	}
	for _, p := range s.Pools {
		if s.passing(p) {
			continue
		}
		what := "pool " + p.Pool.String() + " " + p.Name
		if why := now.refusal(p); dryRun && why != "" {
			done = append(done, restored{What: strings.TrimSpace(what), Error: why})
		} else {
			again(now.pool(p), what, http.MethodPost, path("pools"), admin.NewPool{CIDR: p.Pool.String(), Name: p.Name}, nil)
		}
	}
	for _, r := range s.Reservations {
		where := stretch(r.First.String(), r.Last.String())
		what := where + " " + r.Kind + " " + r.Note
		body := admin.NewReservation{Addresses: where, Note: r.Note}
		switch r.Kind {
		case chronicle.KindKeptForName.String():
			body.For, body.Note = r.Note, ""
		case chronicle.KindExcluded.String():
		default:
			done = append(done, restored{What: strings.TrimSpace(what), Error: "this release knows no such kind: restore it with the one that wrote the snapshot"})
			continue
		}
		var did ipam.Reserving
		again(now.reservation(r), what, http.MethodPost, path("reservations"), body, &did)
		for _, found := range did.Collisions {
			done = append(done, restored{What: stretch(found.First.String(), found.Last.String()) + " of it", Error: "it " + found.Why})
		}
	}
	for _, h := range s.Holders {
		what := h.Address.String() + " held by " + h.For
		if self := now.status.Self.Name; self != s.Host {
			done = append(done, restored{What: what, Error: "only " + s.Host + " can restore it, and this host is " + self})
			continue
		}
		again(now.holder(h), what, http.MethodPost, addressesOf(h.Pool.String()), admin.NewAddress{For: h.For, Address: h.Address.String()}, nil)
	}
	if err := a.show(done, func() { a.view.restored(done, dryRun) }); err != nil {
		return err
	}
	for _, r := range done {
		if r.Error != "" {
			return exitError(exitDegraded)
		}
	}
	return nil
}

func (v view) restored(done []restored, dryRun bool) {
	if len(done) == 0 {
		v.printf("nothing to restore: the snapshot is empty\n")
	}
	for _, r := range done {
		switch {
		case r.Error != "":
			v.wrap(red, "not made: ", safe(r.What)+": "+safe(r.Error))
		case r.There:
			v.wrap(plain, "exists already: ", safe(r.What))
		case dryRun:
			v.wrap(plain, "would make: ", safe(r.What))
		default:
			v.wrap(plain, "made: ", safe(r.What))
		}
	}
}
