package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// A request that comes while the process opens its database again, as after ringlet trust, is told to come again. One that meets a
// disk that fails is told to see to the disk, and only that is an error in the log.
func TestWhyNothingIsAnswered(t *testing.T) {
	for _, c := range []struct {
		fails      error
		says, lies string
	}{
		{fmt.Errorf("commit: %w", fs.ErrClosed), "ringlet on host-a is opening its database: run the command again", "disk"},
		{errors.New("input/output error"), "ringlet on host-a cannot write its database (input/output error): see to the disk, it starts again by itself", "run the command again"},
	} {
		var log bytes.Buffer
		d := &disk{records: machinetest.Disk{}}
		n, err := node.New(node.Config{
			Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))}, Store: d, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.fail = c.fails
		d.mu.Unlock()
		_, _, err = n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), "")
		if !errors.Is(err, ipam.ErrStopped) || err.Error() != c.says || strings.Contains(err.Error(), c.lies) {
			t.Errorf("got %v, want %q", err, c.says)
		}
		if closed := errors.Is(c.fails, fs.ErrClosed); strings.Contains(log.String(), "level=ERROR") == closed {
			t.Errorf("with %v the log says:\n%s", c.fails, &log)
		}
	}
}
