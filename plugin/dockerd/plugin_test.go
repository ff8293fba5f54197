package dockerd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types"
	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/parse"
)

func TestPluginID(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	other := strings.Repeat("f", 64)
	const overlay = "613 612 0:55 / / rw,relatime - overlay overlay rw,lowerdir=/a:/b\n"
	sockets := func(root string) string {
		return "701 613 0:25 " + root + " /run/docker/plugins rw,nosuid shared:5 - tmpfs tmpfs rw,mode=755\n"
	}
	tests := []struct {
		name, in, want string
	}{
		{"managed plugin", overlay + sockets("/docker/plugins/"+id) + "702 613 0:5 / /dev rw - tmpfs tmpfs rw\n", id},
		{"last mount wins", sockets("/"+other) + sockets("/run/docker/plugins/"+id), id},
		{"hidden by another mount", sockets("/"+id) + sockets("/"), ""},
		{"host", overlay, ""},
		{"host with a mount of its own there", sockets("/"), ""},
		{"not an id", sockets("/docker/plugins/ringlet"), ""},
		{"id elsewhere", "701 613 0:25 /docker/plugins/" + id + " /run/docker/plugins/x rw - tmpfs tmpfs rw\n", ""},
		{"garbage", "\n\x00 1 2\n" + strings.Repeat("x ", 9) + "\n", ""},
		{"long line", "1 2 3 4 5 " + strings.Repeat("x", 500_000) + "\n" + sockets("/"+id), id},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := PluginID(strings.NewReader(tt.in))
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}

func TestFindPlugin(t *testing.T) {
	engine := newFakeEngine(t)
	ipam := types.PluginInterfaceType{Prefix: "docker", Capability: "ipamdriver", Version: "1.0"}
	install := func(id, name, reference string, enabled bool, kinds ...types.PluginInterfaceType) {
		p := &types.Plugin{ID: id, Name: name, PluginReference: reference, Enabled: enabled}
		p.Config.Interface.Types = kinds
		p.Settings.Mounts = []types.PluginMount{{Source: new("/var/run"), Destination: "/run/docker/host"}, {Destination: "/without"}}
		engine.install(p)
	}
	install("1", "ringlet:old", "ringlet:old", false, ipam)
	install("2", "ringlet:latest", "hub.example.org/acme/ringlet:1.2", true, ipam)
	install("3", "net:latest", "hub.example.org/acme/ringlet:1.2", true, types.PluginInterfaceType{Prefix: "docker", Capability: "networkdriver", Version: "1.0"}, ipam)
	install("4", "other:latest", "hub.example.org/other:latest", true, ipam)
	install("5", "ringlet-logs:latest", "ringlet-logs:latest", true, types.PluginInterfaceType{Prefix: "docker", Capability: "logdriver", Version: "1.0"})
	socket := listen(t, engine)
	mounts := map[string]string{"/run/docker/host": "/var/run"}
	want := []Plugin{
		{ID: "3", Name: "net:latest", Reference: "hub.example.org/acme/ringlet:1.2", Enabled: true, Mounts: mounts},
		{ID: "2", Name: "ringlet:latest", Reference: "hub.example.org/acme/ringlet:1.2", Enabled: true, Mounts: mounts},
		{ID: "1", Name: "ringlet:old", Reference: "ringlet:old", Mounts: mounts},
	}
	for _, host := range []string{socket, "unix://" + socket, ""} {
		t.Run("host="+host, func(t *testing.T) {
			if host == "" {
				t.Setenv("DOCKER_HOST", "unix://"+socket)
			}
			got, err := FindPlugin(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got, want := want[1].AdminSocket(), "/run/docker/plugins/2/ringlet-admin.sock"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFindPluginFails(t *testing.T) {
	for _, host := range []string{filepath.Join(t.TempDir(), "docker.sock"), "nonsense", "smoke://signals", "ssh://there"} {
		if got, err := FindPlugin(t.Context(), host); err == nil {
			t.Errorf("found %v on %s", got, host)
		}
	}
}

func TestAdminSocketFitsIntoAnAddress(t *testing.T) {
	p := Plugin{ID: strings.Repeat("f", 64)}
	if got := len(p.AdminSocket()); got > parse.MaxSocketPath {
		t.Errorf("the path has %d bytes, want at most %d", got, parse.MaxSocketPath)
	}
}

// Where the files of a plugin lie on its engine's host.
func TestPluginFiles(t *testing.T) {
	engine := newFakeEngine(t)
	engine.info.DockerRootDir = "/srv/docker"
	root, err := Root(t.Context(), listen(t, engine))
	if err != nil || root != "/srv/docker" {
		t.Fatalf("%q, %v", root, err)
	}
	p := Plugin{ID: "aa", Mounts: map[string]string{"/run/docker/host": "/var/run"}}
	for file, want := range map[string]string{
		"/data/keys":         "/srv/docker/plugins/aa/propagated-mount/keys",
		"/data/../etc/hosts": "/srv/docker/plugins/aa/rootfs/etc/hosts",
		"/etc/keys":          "/srv/docker/plugins/aa/rootfs/etc/keys",

		"/run/docker/host/ringlet/keys": "/var/run/ringlet/keys",
		"/run/docker/hosts/keys":        "/srv/docker/plugins/aa/rootfs/run/docker/hosts/keys",
	} {
		if got := p.Path(root, file); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	if _, err := Root(t.Context(), "nonsense"); err == nil {
		t.Error("there is no such engine, and it has a directory")
	}
}

// Inside a managed plugin its own data names the engine's directory. Outside, the data of other plugins does not.
func TestDataRoot(t *testing.T) {
	const line = "900 800 8:1 /srv/docker/plugins/aa/propagated-mount %s rw,relatime - ext4 /dev/sda1 rw\n"
	for at, want := range map[string]string{"/data": "/srv/docker", "/srv/docker/plugins/aa/propagated-mount": ""} {
		if got := DataRoot(strings.NewReader("21 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + strings.Replace(line, "%s", at, 1))); got != want {
			t.Errorf("mounted at %s: got %q, want %q", at, got, want)
		}
	}
}
