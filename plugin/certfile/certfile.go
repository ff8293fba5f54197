// Package certfile is a certificate and its private key in two files, which a
// server uses while they are replaced: a certificate lasts for months, and the
// process for years.
//
// The files are looked at every 5 seconds while [Pair.Run] runs, and read again when
// one of them has changed. A new pair counts as a whole, from the next connection on.
// What cannot be read, or does not fit together, changes nothing: the last good pair
// stays in use, and the error is reported until there is a good one.
//
// It knows nothing of who may read the files, and does not verify the certificate: its
// clients do. All methods of [Pair] are safe for concurrent use.
package certfile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at.
const lookEvery = 5 * time.Second

// maxSize is the largest file that is read, in bytes.
const maxSize = 1 << 20

// ErrNone is returned by a handshake before there is a good pair.
var ErrNone = errors.New("there is no certificate yet")

// Pair is a certificate with its key. Use [New].
type Pair struct {
	cert, key string

	mu   sync.Mutex
	seen [2]stamp
	now  *tls.Certificate // nil: none was good yet
	err  error            // of the last files that were read
}

// stamp tells one content of a file from another.
type stamp struct {
	size int64
	at   time.Time
	file os.FileInfo // nil: there is none
}

func (s stamp) same(other stamp) bool {
	if s.file == nil || other.file == nil {
		return s.file == nil && other.file == nil
	}
	return s.size == other.size && s.at.Equal(other.at) && os.SameFile(s.file, other.file)
}

// New returns the pair in two files, by their paths. It reads nothing yet.
func New(cert, key string) *Pair { return &Pair{cert: cert, key: key} }

// Load reads the files if one of them has changed since they were read. It returns
// what is wrong with them as they are now; whatever that is, a good pair of before stays
// in use.
func (p *Pair) Load() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := [2]stamp{look(p.cert), look(p.key)}
	if p.now != nil && p.err == nil && now[0].same(p.seen[0]) && now[1].same(p.seen[1]) {
		return nil
	}
	pair, err := p.read()
	p.seen, p.err = now, err
	if err == nil {
		p.now = pair
	}
	return err
}

// Run looks at the files until ctx ends, and reports what is wrong with them, nil when
// nothing is. Its error is always nil.
func (p *Pair) Run(ctx context.Context, report func(error)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		report(p.Load())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Config is that of a server which uses the pair, with HTTP/1.1 alone: what bounds the
// requests of a client counts its connections.
func (p *Pair) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.now == nil {
				return nil, ErrNone
			}
			return p.now, nil
		},
	}
}

func look(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{size: info.Size(), at: info.ModTime(), file: info}
}

func (p *Pair) read() (*tls.Certificate, error) {
	cert, err := content(p.cert)
	if err != nil {
		return nil, err
	}
	key, err := content(p.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate with its private key: %w", p.cert, p.key, err)
	}
	return &pair, nil
}

// content reads a file that is not too large.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%s has %d bytes, more than a certificate", path, info.Size())
	}
	return os.ReadFile(path)
}
