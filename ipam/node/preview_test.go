package node_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// counting is a disk that counts how often all of it is loaded.
type counting struct {
	disk
	loads int
}

func (c *counting) Load(visit func(bucket string, key, value []byte) error) error {
	c.loads++
	return c.disk.Load(visit)
}

// held is a disk with an address in it.
func held(t *testing.T) machinetest.Disk {
	t.Helper()
	d := &disk{}
	if _, err := start(t, d, ipam.Config{}).RequestAddress(t.Context(), request("web")); err != nil {
		t.Fatal(err)
	}
	return d.records
}

// restart makes a node of a disk of which the preview was shown something. join is what is known when the store is open.
func restart(d *counting, join bool, show func(*node.Preview)) (*node.Node, error) {
	machine := ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 3))}
	preview := node.NewPreview(machine)
	show(preview)
	machine.Join = join
	return node.New(node.Config{Machine: machine, Store: d, Preview: preview, Logger: slog.New(slog.DiscardHandler)})
}

// showTo shows all of a disk.
func showTo(t *testing.T, p *node.Preview, d machinetest.Disk) {
	t.Helper()
	err := d.Load(func(bucket string, key, value []byte) error {
		p.Visit(bucket, key, value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPreviewIsTheDatabase(t *testing.T) {
	other := machinetest.Disk{"tables\x00\x00x": []byte("y")}
	for _, tt := range []struct {
		name  string
		show  func(*node.Preview, machinetest.Disk)
		loads int
	}{
		{"shown", func(p *node.Preview, d machinetest.Disk) { p.Begin(); showTo(t, p, d); p.End() }, 0},
		{"shown after another", func(p *node.Preview, d machinetest.Disk) {
			p.Begin()
			showTo(t, p, other)
			p.Begin()
			showTo(t, p, d)
			p.End()
		}, 0},
		{"shown nothing", func(*node.Preview, machinetest.Disk) {}, 1},
		{"not to the end", func(p *node.Preview, _ machinetest.Disk) { p.Begin(); showTo(t, p, other) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &counting{disk: disk{records: held(t)}}
			n, err := restart(d, false, func(p *node.Preview) { tt.show(p, d.records) })
			if err != nil {
				t.Fatal(err)
			}
			if d.loads != tt.loads {
				t.Errorf("the disk was loaded %d times, want %d", d.loads, tt.loads)
			}
			audit, err := n.Check(t.Context())
			if err != nil || audit.Verdict != ipam.Fine {
				t.Errorf("audit: %+v, %v", audit, err)
			}
			all, err := n.Addresses(t.Context(), "")
			if err != nil || !slices.ContainsFunc(all, func(a ipam.AddressStatus) bool { return a.Name == "web" && a.State == "held" }) {
				t.Errorf("got addresses %v, %v, want web's", all, err)
			}
		})
	}
}

// What a new machine is to be may follow from how the database was found: what is known when it is open counts.
func TestPreviewOfNothing(t *testing.T) {
	d := &counting{disk: disk{records: machinetest.Disk{}}}
	n, err := restart(d, true, func(p *node.Preview) { p.Begin(); p.End() })
	if err != nil {
		t.Fatal(err)
	}
	if s, err := n.Status(t.Context()); err != nil || s.State != ipam.Joining {
		t.Errorf("the peer is %v, %v, want joining", s.State, err)
	}
	if d.loads != 0 {
		t.Errorf("the disk was loaded %d times", d.loads)
	}
}

// A record that the machine cannot take in is told of when the file is known to be sound.
func TestPreviewOfAForeignDatabase(t *testing.T) {
	other := machinetest.Disk{"tables\x00\x00x": []byte("y")}
	d := &counting{disk: disk{records: other}}
	if _, err := restart(d, false, func(p *node.Preview) { p.Begin(); showTo(t, p, other); p.End() }); !errors.Is(err, ipam.ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	d.records = held(t)
	for name := range d.records {
		if strings.HasPrefix(name, "chronicle") {
			d.records[name] = []byte("?")
		}
	}
	if _, err := restart(d, false, func(p *node.Preview) { p.Begin(); showTo(t, p, d.records); p.End() }); err == nil || !strings.Contains(err.Error(), "record of the") {
		t.Errorf("got %v, want what is wrong with a record", err)
	}
	if d.loads != 0 {
		t.Errorf("the disk was loaded %d times", d.loads)
	}
}
