package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/plugin/certfile"
	"github.com/ringlet/ringlet/plugin/config"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// service is an API at an address that may be taken, or not be there yet, when
// the process starts, and that may be lost later. Addresses are handed out
// without it, so it is tried again for as long as the process lives.
type service struct {
	open   net.Listener // at the start; nil: none
	listen func(ctx context.Context) (net.Listener, error)
	serve  serveFunc
	fault  *fault
}

// part is something that runs beside the others, and may have a fault.
type part struct {
	run   func(context.Context) error
	fault *fault
}

func (s *service) part() part { return part{s.run, s.fault} }

// run serves whenever it can, until ctx ends. Its error is always nil.
func (s *service) run(ctx context.Context) error {
	pause := time.Duration(0)
	for l := s.open; ctx.Err() == nil; l = nil {
		begun := time.Now()
		err := s.attempt(ctx, l)
		if ctx.Err() != nil {
			break
		}
		s.fault.set(cause(err))
		if time.Since(begun) > lastRetry {
			pause = 0 // it was well for a while
		}
		pause = min(max(2*pause, firstRetry), lastRetry)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil //nolint:nilerr // the last attempt ended because ctx did
}

// attempt serves on l, or on a new listener if it is nil, until ctx ends or
// that fails.
func (s *service) attempt(ctx context.Context, l net.Listener) error {
	if l == nil {
		var err error
		if l, err = s.listen(ctx); err != nil {
			return err
		}
	}
	s.fault.set(nil)
	return s.serve(ctx, l)
}

// cause strips an error of the network of its address, which its reader has
// just been told.
func cause(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return fmt.Errorf("the name %s does not resolve to an address", e.Name)
	}
	return err
}

// newHTTP returns the service on RINGLET_HTTP.
func newHTTP(address string, serve serveFunc, logger *slog.Logger) *service {
	return &service{
		listen: func(ctx context.Context) (net.Listener, error) {
			var lc net.ListenConfig
			return lc.Listen(ctx, "tcp", address)
		},
		serve: serve,
		fault: &fault{
			logger: logger, code: "http-unavailable",
			text: func(err error) string {
				return fmt.Sprintf("metrics and the API are not served on %s (RINGLET_HTTP): %v", address, err)
			},
			next: fmt.Sprintf("stop the program that has the address (ss -ltnp shows it), or set RINGLET_HTTP to off or to another address of this host with a port from 1024 on; ringlet tries again at least every %v", lastRetry),
		},
	}
}

// newAdmin returns the service on the admin socket at path, which is open
// already: at the start, the operator is there to read about a wrong path.
func newAdmin(open net.Listener, path string, serve serveFunc, logger *slog.Logger) *service {
	return &service{
		open:   open,
		listen: func(context.Context) (net.Listener, error) { return driver.Listen(path) },
		serve:  serve,
		fault: &fault{
			logger: logger, code: "admin-unavailable",
			text: func(err error) string {
				return fmt.Sprintf("the ringlet commands cannot reach this host, because the socket %s is not served: %v", path, err)
			},
			next: fmt.Sprintf("check that no other process has that path; ringlet tries again at least every %v", lastRetry),
		},
	}
}

// newCertificate returns what reads the certificate of RINGLET_HTTP, at the start and when
// it is replaced. Addresses are handed out whatever is wrong with it.
func newCertificate(cfg config.Config, pair *certfile.Pair, logger *slog.Logger) part {
	f := &fault{
		logger: logger, code: "http-certificate",
		text: func(err error) string {
			return fmt.Sprintf("the certificate of %s (RINGLET_HTTP) cannot be read, so the last good one stays in use, and without one no client is answered: %v", cfg.HTTP, err)
		},
		next: "let RINGLET_HTTP_CERT and RINGLET_HTTP_KEY name a certificate and its private key, both in PEM; the files are read again within 10 seconds",
	}
	return part{func(ctx context.Context) error { return pair.Run(ctx, f.set) }, f}
}

// namesOf returns the names by which RINGLET_HTTP may be asked: this host's, in full and up
// to the first dot, and those of the settings.
func namesOf(cfg config.Config) []string {
	names := append([]string{cfg.Name}, cfg.HTTPHosts...)
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		names = append(names, name, short)
	}
	return names
}
