package main

import (
	"fmt"
	"log/slog"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/etcd"
	"github.com/ringlet/ringlet/plugin/fault"
)

// newMirror returns the copy of the directory in an etcd, with what is wrong with
// it; nil where no etcd is set. Addresses are handed out whatever that is.
func newMirror(cfg config.Config, self ipam.Identity, shared *directory.Directory, logger *slog.Logger) (
	*etcd.Mirror, *fault.Fault, error,
) {
	f := &fault.Fault{
		Logger: logger, Code: "etcd-unavailable",
		Text: func(err error) string { return fmt.Sprintf("etcd does not get a copy of the directory: %v", err) },
		Next: "mend that, or unset RINGLET_ETCD; addresses are handed out meanwhile, ringlet tries again at least every 5 seconds and brings the copy up to date",
	}
	if len(cfg.ETCD.URLs) == 0 {
		return nil, f, nil
	}
	m, err := etcd.New(etcd.Config{
		Endpoints: cfg.ETCD.URLs, CA: cfg.ETCD.CA, Cert: cfg.ETCD.Cert, Key: cfg.ETCD.Key,
		User: cfg.ETCD.User, PasswordFile: cfg.ETCD.PasswordFile,
		Self: self.ID, Directory: shared, Report: f.Set, Logger: logger,
	})
	return m, f, err
}
