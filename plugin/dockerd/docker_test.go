package dockerd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// engineSocket is the engine of the machine that runs the tests.
const engineSocket = "/var/run/docker.sock"

// realEngine returns a client of the machine's engine, and a name for what the
// test makes there and takes away again.
func realEngine(t *testing.T) (*client.Client, string) {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.WithHost("unix://"+engineSocket), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := cli.Ping(ctx); err != nil {
		t.Skipf("no docker engine answers on %s: %v", engineSocket, err)
	}
	return cli, "ringlet-dockerd-test-" + strings.ToLower(rand.Text()[:8])
}

// cleanup undoes something in the engine at the end, whatever happened.
func cleanup(t *testing.T, what string, undo func(ctx context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := undo(ctx); err != nil {
			t.Errorf("%s was left behind in the engine: %v", what, err)
		}
	})
}

// archive makes a tar of regular files that may be executed.
func archive(t *testing.T, files map[string][]byte) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// sleeper returns a static program that does nothing until it is killed.
func sleeper(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Hour) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "sleeper"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "sleeper"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// The life of a network and a container in a real engine, seen by events
// alone: the interval is out of reach. The engine's own IPAM driver stands in
// for ours.
func TestRealEngine(t *testing.T) {
	cli, name := realEngine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	imported, err := cli.ImageImport(ctx, image.ImportSource{Source: archive(t, map[string][]byte{"sleeper": sleeper(t)}), SourceName: "-"}, name, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, "image "+name, func(ctx context.Context) error {
		_, err := cli.ImageRemove(ctx, name, image.RemoveOptions{Force: true})
		return err
	})
	if _, err := io.Copy(io.Discard, imported); err != nil { // it is done at the end of the answer
		t.Fatal(err)
	}
	_ = imported.Close()

	w, looks := inventories(t, Config{Socket: engineSocket, Names: []string{"default"}, Interval: time.Hour})
	ours := func(inv Inventory) *Network {
		for i, n := range inv.Networks {
			if n.Name == name {
				return &inv.Networks[i]
			}
		}
		return nil
	}
	await(t, w, looks, "the engine", func(inv Inventory) bool { return inv.Complete && inv.Engine != "" })
	if s := w.State(); !s.Connected || s.APIVersion == "" || s.EngineVersion == "" {
		t.Errorf("got state %+v", s)
	}

	created, err := cli.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	removed := false
	cleanup(t, "network "+name, func(ctx context.Context) error {
		if removed {
			return nil
		}
		return cli.NetworkRemove(ctx, created.ID)
	})
	seen := ours(await(t, w, looks, "the new network", func(inv Inventory) bool { return inv.Complete && ours(inv) != nil }))
	if seen.ID != created.ID || seen.Driver != "bridge" || seen.Scope != "local" || !seen.Internal ||
		len(seen.Subnets) != 1 || !seen.Subnets[0].Prefix.IsValid() || len(seen.Endpoints) != 0 {
		t.Errorf("got network %+v", seen)
	}

	made, err := cli.ContainerCreate(ctx, &container.Config{Image: name, Cmd: []string{"/sleeper"}},
		&container.HostConfig{NetworkMode: container.NetworkMode(name)}, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, "container "+name, func(ctx context.Context) error {
		return cli.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true})
	})
	if err := cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Skipf("this engine cannot start containers: %v", err)
	}
	seen = ours(await(t, w, looks, "the container", func(inv Inventory) bool {
		n := ours(inv)
		return n != nil && len(n.Endpoints) == 1 && len(n.Endpoints[0].Addresses) == 1
	}))
	e := seen.Endpoints[0]
	if e.Container != made.ID || e.Name != name || e.ID == "" || e.MAC == "" ||
		!seen.Subnets[0].Prefix.Contains(e.Addresses[0].Addr()) || e.Addresses[0].Bits() != seen.Subnets[0].Prefix.Bits() {
		t.Errorf("got endpoint %+v in %+v", e, seen.Subnets)
	}

	if err := cli.ContainerKill(ctx, made.ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	await(t, w, looks, "the end of the container", func(inv Inventory) bool {
		n := ours(inv)
		return inv.Complete && n != nil && len(n.Endpoints) == 0
	})
	if err := cli.NetworkRemove(ctx, created.ID); err != nil {
		t.Fatal(err)
	}
	removed = true
	await(t, w, looks, "the end of the network", func(inv Inventory) bool { return inv.Complete && ours(inv) == nil })
}

// A plugin that is installed and never enabled, so that nothing runs.
func TestRealPlugin(t *testing.T) {
	cli, name := realEngine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	name += ":v1"
	err := cli.PluginCreate(ctx, archive(t, map[string][]byte{
		"config.json": []byte(`{"description":"test","entrypoint":["/x"],"interface":{"types":["docker.ipamdriver/1.0"],"socket":"x.sock"},"network":{"type":"host"}}`),
		"rootfs/x":    []byte(rand.Text()), // engines refuse a file system they have already
	}), types.PluginCreateOptions{RepoName: name})
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, "plugin "+name, func(ctx context.Context) error {
		return cli.PluginRemove(ctx, name, types.PluginRemoveOptions{Force: true})
	})

	found, err := FindPlugin(ctx, engineSocket)
	if err != nil {
		t.Fatal(err)
	}
	var self Plugin
	for _, p := range found {
		if p.Name == name {
			self = p
		}
	}
	if self.Enabled || !pluginID.MatchString(self.ID) {
		t.Fatalf("got %+v, want %s among them, disabled", found, name)
	}
	w, looks := inventories(t, Config{Socket: engineSocket, Plugin: self.ID})
	await(t, w, looks, "the engine", func(inv Inventory) bool { return inv.Complete && len(inv.Networks) == 0 })
	if got := w.State().Names; len(got) != 1 || got[0] != name {
		t.Errorf("got names %q, want %q", got, name)
	}
}
