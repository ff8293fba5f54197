package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// The port to open is the one at which the other host is.
func TestDoctorNamesThePort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody answers
	a := &app{cfg: Config{}.withDefaults()}
	found := a.ports(ctx, admin.About{}, ipam.Status{Peers: []ipam.PeerStatus{{ID: "bb", Name: "host-b", Address: "192.0.2.9:17950"}}})
	if len(found) != 1 || !strings.Contains(found[0].Next, "17950") {
		t.Errorf("got %+v", found)
	}
}
