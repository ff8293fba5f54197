package cli

import (
	"bufio"
	"context"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// The commands that add a host name the cluster and where the key is, never the key.
func TestInvite(t *testing.T) {
	const key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	var all strings.Builder
	for _, tt := range []struct {
		name, reference string
		env             []string
		open            bool
	}{
		{"a key in a file, from a registry", "registry.example:5000/ringlet:1.0", []string{"RINGLET_KEY_FILE=/data/keys", "RINGLET_CLUSTER=lab-2", "RINGLET_TIMEOUT=30s"}, true},
		{"a key in a setting, built here", "ringlet:latest", []string{"RINGLET_KEY=" + key, "RINGLET_SUBNET="}, true},
		{"no key at all", "ringlet:latest", []string{"RINGLET_INSECURE=true"}, true},
		{"closed", "ringlet:latest", nil, false},
	} {
		f := alone()
		f.about.Network = admin.AboutNetwork{Open: tt.open, Advertise: "192.168.1.11:7950"}
		for i, at := range []string{"192.168.1.12:7950", "192.168.1.13:7951", "192.168.1.14:7950"} {
			f.st.Peers = append(f.st.Peers, ipam.PeerStatus{ID: string(rune('b' + i)), Name: "host", Reachable: i > 0, Address: at})
		}
		cfg := Config{EngineRoot: func(context.Context, string) (string, error) { return "/var/lib/docker", nil }}.withDefaults()
		all.WriteString("# " + tt.name + "\n\n")
		a := &app{cfg: cfg, out: bufio.NewWriter(&all)}
		a.view = newView(a.out, cfg)
		in, err := a.invitation(t.Context(), target{socket: serve(t, f), plugin: dockerd.Plugin{ID: "aabb", Name: "ringlet:latest", Reference: tt.reference, Env: tt.env}}, "host-c")
		if err != nil {
			all.WriteString(err.Error() + "\n\n")
			continue
		}
		a.view.invitation(in, "host-c")
		a.view.printf("\n")
		if err := a.out.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(all.String(), key) {
		t.Error("the key is shown")
	}
	golden.Check(t, "invite.txt", []byte(all.String()))
	if got := ringlet(t, Config{}, "invite", "--host", "x; rm -rf /"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
	if got := ringlet(t, Config{}, "invite", "--socket", serve(t, alone())); got.code != exitFailed || !strings.Contains(got.err, "RINGLET_JOIN") {
		t.Errorf("%+v", got)
	}
}
