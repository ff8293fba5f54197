// Package decisions keeps what people decided in a file beside the database: pools, exclusions and reservations. It is read
// when the database is lost.
//
// The file has the layout of a snapshot of the command line, so that ringlet snapshot inspect shows it. It knows nothing of
// peers, owners and containers, and refuses to know when it is to be written or believed.
package decisions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/ringlet/ringlet/internal/durable"
	"github.com/ringlet/ringlet/ipam"
)

// FileName is the file's name in the directory of the database.
const FileName = "ringlet.decided.json"

// format is the version of the layout. Fields are only ever added.
const format = 1

// ErrDamaged is wrapped by the error for a file that is not what was written.
var ErrDamaged = errors.New("the file is damaged")

// File is what the file has. The zero value is that of a host on which nothing was decided yet.
type File struct {
	Format       int                      `json:"format"`
	At           time.Time                `json:"at"` // when it was written
	Version      string                   `json:"version"`
	Cluster      string                   `json:"cluster"`
	Host         string                   `json:"host"`
	Pools        []Pool                   `json:"pools"`
	Reservations []ipam.ReservationStatus `json:"reservations"`
	Holders      []struct{}               `json:"holders"` // a snapshot has them
	Peers        int                      `json:"peers"`   // of the cluster
	// Lost is when the database was lost last, and this host founded a cluster again with what is here; zero: never.
	Lost time.Time `json:"lost,omitzero"`
	// Unsure is the cluster in which nothing new is handed out on LANs: this host founded it with a new database and without
	// this file. Empty: there is none.
	Unsure string `json:"unsure,omitempty"`
	Sum    string `json:"sum"` // CRC-32C of the rest
}

// Pool is a pool that people decided something about.
type Pool struct {
	Pool   netip.Prefix `json:"pool"`
	Name   string       `json:"name"`
	Chosen bool         `json:"chosen"`
	Origin string       `json:"origin"`
}

// Put takes over what the core says.
func (f *File) Put(d *ipam.Decided) {
	f.Cluster, f.Peers = fmt.Sprintf("%x", d.Cluster), d.Peers
	f.Pools, f.Reservations = []Pool{}, []ipam.ReservationStatus{}
	for _, p := range d.Pools {
		f.Pools = append(f.Pools, Pool{Pool: p.Pool, Name: p.Name, Origin: p.Origin})
		f.Reservations = append(f.Reservations, p.Reserved...)
	}
}

// Decided returns what [File.Put] took over, for the core.
func (f *File) Decided() *ipam.Decided {
	d := &ipam.Decided{Peers: f.Peers}
	for _, p := range f.Pools {
		pool := ipam.DecidedPool{Pool: p.Pool, Name: p.Name, Origin: p.Origin}
		for _, r := range f.Reservations {
			if r.Pool == p.Pool {
				pool.Reserved = append(pool.Reserved, r)
			}
		}
		d.Pools = append(d.Pools, pool)
	}
	return d
}

// Same reports whether two files have the same, whenever they were written.
func (f *File) Same(other *File) bool {
	a, b := *f, *other
	a.At, b.At = time.Time{}, time.Time{}
	one, err := a.encode()
	two, failed := b.encode()
	return err == nil && failed == nil && bytes.Equal(one, two)
}

// Read reads the file. Without one it returns nil and no error. Errors: one that wraps [ErrDamaged], or the system's.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // as it says
	}
	if err != nil {
		return nil, err
	}
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	want := f.Sum
	if _, err := f.encode(); err != nil || f.Sum != want {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	return &f, nil
}

// Write replaces the file, which is on disk then, or leaves it as it was.
func (f *File) Write(path string) error {
	f.Format = format
	text, err := f.encode()
	if err != nil {
		return err
	}
	return durable.Replace(path, text)
}

// encode sets the checksum, and returns the text.
func (f *File) encode() ([]byte, error) {
	f.Sum = ""
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	f.Sum = fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	text, err = json.MarshalIndent(f, "", "  ")
	return append(text, '\n'), err
}
