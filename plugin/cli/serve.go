package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Where the plugin's process finds and keeps its things unless it is told
// otherwise: the paths inside a managed plugin.
const (
	DefaultData         = "/data"
	DefaultSocket       = "/run/docker/plugins/ringlet.sock"
	DefaultAdminSocket  = "/run/docker/plugins/ringlet-admin.sock"
	DefaultDockerSocket = "/run/docker/host/docker.sock"
)

// DatabaseName is the file name of the database in the data directory.
const DatabaseName = "ringlet.db"

// ServeOptions are the arguments of the plugin's own process; its settings
// come from the environment.
type ServeOptions struct {
	Data         string // directory of the database
	Socket       string // that the engine talks to
	AdminSocket  string // that these commands talk to
	DockerSocket string // of the engine; empty: it is not asked which containers live
	// DriverNames are the IPAM drivers whose networks are this process's,
	// beside the name of the managed plugin that it runs in.
	DriverNames []string
	// Drop gives up the rights of root that the process does not need, as
	// privilege.Drop does. Nil: it keeps them, as a test has to, whose
	// process goes on.
	Drop func(keepNetRaw bool) error
}

func (a *app) serveCommand() *cobra.Command {
	opts := ServeOptions{}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the plugin's process",
		GroupID: groupTools,
		Long: `Run the plugin's process until it is stopped. In a managed plugin the engine
does that. Outside Docker, give it a data directory and sockets. The name of the
IPAM driver is then the file name of --socket, without .sock. The settings are
environment variables: RINGLET_NAME and so on.`,
		Example: `  ringlet serve --data /var/lib/ringlet --socket /run/docker/plugins/ringlet.sock \
    --admin-socket /run/ringlet/admin.sock --docker-socket /run/docker.sock`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, path := range map[string]string{"data": opts.Data, "socket": opts.Socket, "admin-socket": opts.AdminSocket} {
				if path == "" {
					return usagef(cmd, "--%s is empty: name a path, or leave the flag out for the default", flag)
				}
			}
			if len(opts.DriverNames) == 0 {
				opts.DriverNames = []string{legacyName(opts.Socket)}
			}
			return a.cfg.Serve(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Data, "data", DefaultData, "`directory` of the database")
	// This --socket takes the place of the one that the other commands have.
	flags.StringVar(&opts.Socket, "socket", DefaultSocket, "`path` of the socket that the engine talks to\n")
	flags.StringVar(&opts.AdminSocket, "admin-socket", DefaultAdminSocket, "`path` of the socket that the other commands talk to\n")
	flags.StringVar(&opts.DockerSocket, "docker-socket", DefaultDockerSocket, "`path` of the engine's own socket, or empty for none\n")
	flags.StringArrayVar(&opts.DriverNames, "driver-name", nil, "`name` of an IPAM driver whose networks are this\nprocess's; can be repeated\n(default: the file name of --socket without .sock)")
	_ = cmd.MarkFlagDirname("data") // these flags exist
	for _, socket := range []string{"socket", "admin-socket", "docker-socket"} {
		_ = cmd.RegisterFlagCompletionFunc(socket, files)
	}
	return cmd
}

// legacyName returns the driver name under which an engine finds a plugin by
// its socket.
func legacyName(socket string) string { return strings.TrimSuffix(filepath.Base(socket), ".sock") }
