package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// A request that comes while the process opens its database again, as after ringlet trust, is told to come again. One that meets a
// disk that fails is told to see to the disk.
func TestWhyNothingIsAnswered(t *testing.T) {
	for _, c := range []struct {
		fails      error
		says, lies string
	}{
		{fmt.Errorf("commit: %w", fs.ErrClosed), "ringlet on host-a is opening its database: run the command again", "disk"},
		{errors.New("input/output error"), "ringlet on host-a cannot write its database (input/output error): see to the disk, it starts again by itself", "run the command again"},
	} {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		d.mu.Lock()
		d.fail = c.fails
		d.mu.Unlock()
		_, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), "")
		if !errors.Is(err, ipam.ErrStopped) || err.Error() != c.says || strings.Contains(err.Error(), c.lies) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}
