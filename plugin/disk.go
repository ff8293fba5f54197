package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/ringlet/ringlet/internal/pace"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/cli"
)

// diskInterval is how often the room on the disk is looked at.
const diskInterval = 10 * time.Second

// disk sees to it that the database has room: it keeps some, and has nothing more
// handed out when that had to be given up. Safe for concurrent use; use newDisk.
type disk struct {
	host    string // name of this one
	data    string // directory
	ballast *persist.Ballast
	pace    *pace.Pace // may be nil
	low     *fault     // there is little room left
	full    *fault     // nothing is handed out
	broken  *fault     // no room can be kept
}

func newDisk(host, data, database string, logger *slog.Logger) *disk {
	next := fmt.Sprintf("make room for %d MiB on the disk with the plugin's data; ringlet then goes on by itself", lowDisk>>20)
	return &disk{
		host: host, data: data, ballast: persist.NewBallast(database, logger),
		low: &fault{
			logger: logger, code: "disk-low", next: next,
			text: func(err error) string {
				return fmt.Sprintf("%v; when it is full, this host hands out no addresses", err)
			},
		},
		full: &fault{
			logger: logger, code: "disk-full", level: ipam.Failed, next: next,
			text: func(error) string {
				return "the disk with the plugin's data is full: this host hands out no addresses, so that it can still write down what is freed"
			},
		},
		broken: &fault{
			logger: logger, code: "disk-reserve", next: "check the disk with the plugin's data; ringlet tries again every few seconds",
			text: func(err error) string {
				return fmt.Sprintf("no reserve for a full disk could be made (%v); this host still hands out addresses", err)
			},
		},
	}
}

// lowDisk is how much should be free, in bytes, as ringlet doctor sees it.
const lowDisk = cli.LeastDisk

// free returns how much is free on the disk, in bytes; false if that is not known.
func (d *disk) free() (bytes uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.data, &st); err != nil || st.Blocks == 0 { // as of one in memory without a limit
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true //nolint:gosec // a block has a size
}

// run keeps the room until ctx ends. Its error is always nil.
func (d *disk) run(ctx context.Context) error {
	for rest(ctx, d.pace.Round(diskInterval), nil) {
		d.look()
	}
	return nil
}

// look makes the reserve if it is not there, and says how things are.
func (d *disk) look() {
	err := d.ballast.Fill()
	switch {
	case err == nil:
		d.full.set(nil)
		d.broken.set(nil)
	case d.ballast.Lacking() && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)):
		d.full.set(err)
		d.broken.set(nil)
	default:
		d.broken.set(err)
	}
	if free, ok := d.free(); ok && free < lowDisk {
		d.low.set(fmt.Errorf("less than %d MiB are free on the disk with the plugin's data", lowDisk>>20))
	} else {
		d.low.set(nil)
	}
}

// closed returns why nothing is handed out, nil if it is.
func (d *disk) closed() error {
	if !d.ballast.Lacking() {
		return nil
	}
	return &ipam.Error{Kind: ipam.ErrSuspended, Text: fmt.Sprintf(
		"ringlet on %s hands out nothing while its disk is full: make room for %d MiB on the disk with its data, then it goes on by itself", d.host, lowDisk>>20)}
}

// faults are what can be wrong with the disk.
func (d *disk) faults() []*fault { return []*fault{d.full, d.low, d.broken} }
