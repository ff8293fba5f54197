package cli

import (
	"context"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// About, Log, Keys and ChangeKeys make a fixture also the process around it.
func (f *fixture) About(context.Context) (admin.About, error) {
	return f.about, f.call("about")
}

func (f *fixture) Log() []byte { return []byte("level=info msg=\"ringlet started\"\n") }

func (f *fixture) Crash() []byte { return []byte(f.crash) }

func (f *fixture) Keys(context.Context) (admin.Keys, error) {
	return f.keys, f.call("keys")
}

func (f *fixture) ChangeKeys(_ context.Context, c admin.KeyChange) (admin.Keys, error) {
	if c.Key == "bad" {
		return admin.Keys{}, &ipam.Error{Kind: ipam.ErrBadRequest, Text: "the key is not usable: it is not base64"}
	}
	return f.keys, f.call("keys %s %s", c.Step, c.Key)
}

// wellAbout is a process of which all is well.
func wellAbout() admin.About {
	return admin.About{
		Version: "v1.2.3", Go: "go1.26", Platform: "linux/amd64", Started: now.Add(-time.Hour), Settings: map[string]string{"name": "host-a", "key": "1"},
		Engine:  admin.AboutEngine{Socket: "/run/docker/host/docker.sock", Connected: true, Version: "29.0.1", API: "1.52", Names: []string{"ringlet:latest"}, LastLook: new(now)},
		Network: admin.AboutNetwork{Open: true, Advertise: "192.168.1.10:7950", Alive: 1, Known: 1, Keys: 1, Problems: []string{}},
	}
}
