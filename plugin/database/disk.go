package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/fault"
)

// diskInterval is how often the room on the disk is looked at.
const diskInterval = 10 * time.Second

// Disk sees to it that the database has room: it keeps some, and has nothing more
// handed out when that had to be given up. Safe for concurrent use; use [NewDisk].
type Disk struct {
	host    string // name of this one
	data    string // directory
	least   uint64 // bytes that should be free
	Ballast *persist.Ballast
	pace    *pace.Pace   // may be nil
	low     *fault.Fault // there is little room left
	full    *fault.Fault // nothing is handed out
	broken  *fault.Fault // no room can be kept
}

// NewDisk returns what sees to the disk of a database: least is how much should be free on it, in bytes, and host the name of this one.
// A nil pace leaves the looks to themselves.
func NewDisk(host, path string, least uint64, p *pace.Pace, logger *slog.Logger) *Disk {
	next := fmt.Sprintf("make room for %d MiB on the disk with the plugin's data; ringlet then goes on by itself", least>>20)
	return &Disk{
		host: host, data: filepath.Dir(path), least: least, pace: p, Ballast: persist.NewBallast(path, logger),
		low: &fault.Fault{
			Logger: logger, Code: "disk-low", Next: next,
			Text: func(err error) string {
				return fmt.Sprintf("%v; when it is full, this host hands out no addresses", err)
			},
		},
		full: &fault.Fault{
			Logger: logger, Code: "disk-full", Level: ipam.Failed, Next: next,
			Text: func(error) string {
				return "the disk with the plugin's data is full: this host hands out no addresses, so that it can still write down what is freed"
			},
		},
		broken: &fault.Fault{
			Logger: logger, Code: "disk-reserve", Next: "check the disk with the plugin's data; ringlet tries again every few seconds",
			Text: func(err error) string {
				return fmt.Sprintf("no reserve for a full disk could be made (%v); this host still hands out addresses", err)
			},
		},
	}
}

// Free returns how much is free on the disk, in bytes; false if that is not known.
func (d *Disk) Free() (bytes uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.data, &st); err != nil || st.Blocks == 0 { // as of one in memory without a limit
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true // a block has a size
}

// Run keeps the room until ctx ends. Its error is always nil.
func (d *Disk) Run(ctx context.Context) error {
	for backoff.Sleep(ctx, d.pace.Round(diskInterval), nil) {
		d.Look()
	}
	return nil
}

// Look makes the reserve if it is not there, and says how things are.
func (d *Disk) Look() {
	err := d.Ballast.Fill()
	switch {
	case err == nil:
		d.full.Set(nil)
		d.broken.Set(nil)
	case d.Ballast.Lacking() && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)):
		d.full.Set(err)
		d.broken.Set(nil)
	default:
		d.broken.Set(err)
	}
	if free, ok := d.Free(); ok && free < d.least {
		d.low.Set(fmt.Errorf("less than %d MiB are free on the disk with the plugin's data", d.least>>20))
	} else {
		d.low.Set(nil)
	}
}

// Closed returns why nothing is handed out, nil if it is.
func (d *Disk) Closed() error {
	if !d.Ballast.Lacking() {
		return nil
	}
	return &ipam.Error{Kind: ipam.ErrSuspended, Text: fmt.Sprintf(
		"ringlet on %s hands out nothing while its disk is full: make room for %d MiB on the disk with its data, then it goes on by itself", d.host, d.least>>20)}
}

// Faults are what can be wrong with the disk.
func (d *Disk) Faults() []*fault.Fault { return []*fault.Fault{d.full, d.low, d.broken} }
