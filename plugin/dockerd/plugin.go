package dockerd

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

const (
	// pluginSockets is where a managed plugin makes its sockets, in its own
	// file system; on the host each plugin has a directory of its own below.
	pluginSockets = "/run/docker/plugins"

	// adminSocket is the file name of our admin socket there.
	adminSocket = "ringlet-admin.sock"

	// dataMount is the plugin's propagated mount in its own file system.
	dataMount = "/data"

	// ipamInterface is the interface type that an IPAM plugin declares.
	ipamInterface = "docker.ipamdriver/1.0"

	// product is what the name of one of our plugins, or the reference it was
	// pulled from, contains.
	product = "ringlet"
)

var pluginID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// PluginID returns the ID of the managed plugin that a process runs in, given
// its /proc/self/mountinfo; false outside a managed plugin. Nothing else tells
// a plugin who it is: its socket directory is the host directory named after
// its ID.
func PluginID(mountinfo io.Reader) (string, bool) {
	const root, mountPoint = 3, 4 // fields, see proc_pid_mountinfo(5)
	found := ""
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20) // overlay options list every layer in one line
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= mountPoint || fields[mountPoint] != pluginSockets {
			continue
		}
		// The last mount at a place hides those before it.
		if found = path.Base(fields[root]); !pluginID.MatchString(found) {
			found = ""
		}
	}
	return found, found != ""
}

// DataRoot returns the engine's data directory, as the host names it within its
// file system, given the /proc/self/mountinfo of a process in a managed
// plugin; empty outside of one.
func DataRoot(mountinfo io.Reader) string {
	const root, mountPoint = 3, 4
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= mountPoint || fields[mountPoint] != dataMount { // outside of a plugin those of others are visible, which come and go
			continue
		}
		if before, after, ok := strings.Cut(fields[root], "/plugins/"); ok && strings.HasSuffix(after, "/propagated-mount") {
			return before
		}
	}
	return ""
}

// Plugin is an installed plugin that looks like this product.
type Plugin struct {
	ID   string
	Name string // with tag, as in --ipam-driver
	// Reference is what it was installed from, as registry.example:5000/ringlet:1.0.
	Reference string
	Enabled   bool
	Env       []string // its settings as NAME=value, secrets among them
	// Mounts are directories of the engine's host, by where the plugin has them.
	Mounts map[string]string
}

// AdminSocket returns the path, on the engine's host, of the plugin's admin
// socket. It exists while the plugin runs.
func (p Plugin) AdminSocket() string { return path.Join(pluginSockets, p.ID, adminSocket) }

// Dir returns the directory, on the engine's host, in which the engine keeps the plugin;
// [Root] tells the engine's. It is there as long as the plugin is installed.
func (p Plugin) Dir(root string) string { return path.Join(root, "plugins", p.ID) }

// Data returns the directory, on the engine's host, that the plugin has as /data.
// It is there whether the plugin runs or not.
func (p Plugin) Data(root string) string { return path.Join(p.Dir(root), "propagated-mount") }

// Path returns where on the engine's host a file of the plugin's lies: what it
// has in its propagated mount or another one, or came with.
func (p Plugin) Path(root, file string) string {
	file = path.Clean(file)
	if below, ok := strings.CutPrefix(file, dataMount+"/"); ok {
		return path.Join(p.Data(root), below)
	}
	for at, source := range p.Mounts {
		if below, ok := strings.CutPrefix(file, path.Clean(at)+"/"); ok {
			return path.Join(source, below)
		}
	}
	return path.Join(p.Dir(root), "rootfs", file)
}

// FindPlugin lists the engine's plugins that serve IPAM and have "ringlet" in
// their name or in the reference they were installed from, enabled ones first,
// then by name. The engine is given as the path of a unix socket or as a URL
// like DOCKER_HOST; empty means what the docker command's environment
// variables say. It waits no longer than [DefaultTimeout].
func FindPlugin(ctx context.Context, dockerSocketOrHost string) ([]Plugin, error) {
	cli, err := newClient(dockerSocketOrHost)
	if err != nil {
		return nil, err
	}
	defer cli.Close()

	all, err := call(ctx, DefaultTimeout, "/plugins", func(ctx context.Context) (types.PluginsListResponse, error) {
		return cli.PluginList(ctx, filters.NewArgs())
	})
	if err != nil {
		return nil, err
	}
	var ours []Plugin
	for _, p := range all {
		if p != nil && isOurs(p) {
			ours = append(ours, Plugin{
				ID: p.ID, Name: p.Name, Reference: p.PluginReference, Enabled: p.Enabled,
				Env: p.Settings.Env, Mounts: mounts(p),
			})
		}
	}
	slices.SortFunc(ours, func(a, b Plugin) int {
		if a.Enabled != b.Enabled {
			if a.Enabled {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return ours, nil
}

// mounts returns what is mounted into a plugin.
func mounts(p *types.Plugin) map[string]string {
	out := map[string]string{}
	for _, m := range p.Settings.Mounts {
		if m.Source != nil {
			out[m.Destination] = *m.Source
		}
	}
	return out
}

// Root returns the directory in which an engine on this host keeps what is its
// own, as /var/lib/docker. The engine is given as for [FindPlugin], and waited for
// no longer than there.
func Root(ctx context.Context, dockerSocketOrHost string) (string, error) {
	cli, err := newClient(dockerSocketOrHost)
	if err != nil {
		return "", err
	}
	defer cli.Close()
	info, err := call(ctx, DefaultTimeout, "/info", cli.Info)
	return info.DockerRootDir, err
}

// newClient returns a client of the engine that the command line means.
func newClient(dockerSocketOrHost string) (*client.Client, error) {
	host := dockerSocketOrHost
	options := []client.Opt{client.WithAPIVersionNegotiation()}
	switch {
	case host == "":
		options = append(options, client.FromEnv)
	case strings.HasPrefix(host, "/"):
		options = append(options, client.WithHost("unix://"+host))
	case strings.HasPrefix(host, "unix://"):
		options = append(options, client.WithHost(host))
	default: // certificates still come from the environment
		options = append(options, client.FromEnv, client.WithHost(host))
	}
	named := cmp.Or(host, os.Getenv(client.EnvOverrideHost))
	if strings.HasPrefix(named, "ssh://") {
		return nil, fmt.Errorf("the docker host is %s, and ringlet reaches a plugin on its own host alone: run it there", named)
	}
	cli, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, fmt.Errorf("the docker host %q is not usable: %w", named, err)
	}
	return cli, nil
}

func isOurs(p *types.Plugin) bool {
	if !strings.Contains(p.Name, product) && !strings.Contains(p.PluginReference, product) {
		return false
	}
	return slices.ContainsFunc(p.Config.Interface.Types, func(t types.PluginInterfaceType) bool {
		return strings.EqualFold(t.String(), ipamInterface)
	})
}
