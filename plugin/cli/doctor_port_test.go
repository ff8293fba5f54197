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

// A port that this host could not open is the cause, whatever the other hosts do.
func TestDoctorOfTheOwnPort(t *testing.T) {
	a := &app{cfg: Config{}.withDefaults()}
	st := ipam.Status{
		Peers:    []ipam.PeerStatus{{ID: "bb", Name: "host-b", Address: "192.0.2.9:17950"}},
		Problems: []ipam.Problem{{Code: "joining", Text: "not yet"}, {Code: "network-closed", Text: "127.0.0.1:7950 cannot be opened", Next: "end that program"}},
	}
	found := a.ports(t.Context(), admin.About{}, st)
	if len(found) != 1 || found[0].Level != diagnosedFail || !strings.Contains(found[0].Text, "cannot be opened") || found[0].Next != "end that program" {
		t.Errorf("got %+v", found)
	}
}
