package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

// Config is what the command line needs of its program.
type Config struct {
	Version string    // of the program
	In      io.Reader // for what is read from -; default: standard input
	Out     io.Writer // for what was asked for; default: standard output
	Err     io.Writer // for what went wrong; default: standard error

	// Serve runs the plugin's own process until ctx ends. If it is nil, there
	// is no command serve.
	Serve func(ctx context.Context, opts ServeOptions) error

	// FindPlugin lists the engine's plugins that may be ours; default
	// [dockerd.FindPlugin].
	FindPlugin func(ctx context.Context, host string) ([]dockerd.Plugin, error)
	// EngineRoot tells where, on this host, the engine keeps what is its own;
	// default [dockerd.Root].
	EngineRoot func(ctx context.Context, host string) (string, error)
	// Getenv reads the environment; default [os.Getenv].
	Getenv func(name string) string
	// Now is the time that ages are counted to; default [time.Now].
	Now func() time.Time

	docker *dockerCall // nil: the docker command has not called

	clock func() clockState                // default: what the kernel says
	mtuOf func(a netip.Addr) (string, int) // default: of the interfaces of this host
	dial  func(ctx context.Context, network, address string) (net.Conn, error)

	columns int  // of the terminal that tests pretend to have; 0: look
	colour  bool // that terminal shows colour

	unitSocket string // default [unitSocket]

	lookEvery time.Duration // in tests, which have no time; default [lookEvery]
}

func (c Config) withDefaults() Config {
	if c.In == nil {
		c.In = os.Stdin
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
	if c.Err == nil {
		c.Err = os.Stderr
	}
	if c.FindPlugin == nil {
		c.FindPlugin = dockerd.FindPlugin
	}
	if c.EngineRoot == nil {
		c.EngineRoot = dockerd.Root
	}
	if c.unitSocket == "" {
		c.unitSocket = unitSocket
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.clock == nil {
		c.clock = readClock
	}
	if c.mtuOf == nil {
		c.mtuOf = interfaceMTU
	}
	if c.dial == nil {
		c.dial = new(net.Dialer).DialContext
	}
	return c
}

// app is one run of the program.
type app struct {
	cfg  Config
	out  *bufio.Writer
	view view

	socket string // --socket
	host   string // the engine to ask, from docker's own flags
	format format
}

// The groups of commands in the help.
const (
	groupStatus    = "status"
	groupAddresses = "addresses"
	groupPools     = "pools"
	groupHosts     = "hosts"
	groupTools     = "tools"
)

// New returns the root command. Its errors are for [ExitCode]; it prints none
// of them itself, as [Execute] does.
func New(cfg Config) *cobra.Command {
	cfg = cfg.withDefaults()
	a := &app{cfg: cfg, out: bufio.NewWriter(cfg.Out), format: formatTable}
	a.view = newView(a.out, cfg)

	version := false
	root := &cobra.Command{
		Use:   "ringlet",
		Short: "IP address management for Docker networks",
		Long: `ringlet hands out addresses to containers and devices, and never the same one
twice. These commands ask the plugin on this host. They find its socket through
the Docker engine, or in RINGLET_SOCKET, or where the systemd unit has it.

Where a terminal is too narrow, tables leave out columns. A pipe gets them all.

Exit codes: 0 fine, 1 failed, 2 wrong command line, 3 works but degraded.`,
		Example: `  ringlet status
  ringlet ip ls --pool 10.50.0.0/24
  ringlet alloc --pool lab --for printer-3
  ringlet who 10.50.0.7 -o json
  ringlet peers`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				return a.version()
			}
			return c.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version of this program")
	// Nothing here is a file, except where a flag says so.
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetOut(cfg.Out)
	root.SetErr(cfg.Err)
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: groupStatus, Title: "Status:"},
		&cobra.Group{ID: groupAddresses, Title: "Addresses:"},
		&cobra.Group{ID: groupPools, Title: "Pools:"},
		&cobra.Group{ID: groupHosts, Title: "Hosts:"},
		&cobra.Group{ID: groupTools, Title: "Keys and tools:"},
	)
	a.globalFlags(root)
	root.AddCommand(a.commands()...)
	if cfg.Serve != nil {
		root.AddCommand(a.serveCommand())
	}
	root.SetHelpCommand(helpCommand())
	return root
}

// globalFlags gives root the flags that every command has.
func (a *app) globalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.socket, "socket", "", "the plugin's admin `socket` (default: found automatically)")
	flags.VarP(&a.format, "output", "o", "output `format`: table or json")
	flags.StringVar(&a.host, "host", "", "")
	_ = flags.MarkHidden("host") // docker's own, see dockerArgs
	_ = root.RegisterFlagCompletionFunc("socket", files)
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// commands are those that there always are, in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.statusCommand(), a.peersCommand(), a.ringCommand(), a.kvCommand(), a.eventsCommand(), a.checkCommand(),
		a.doctorCommand(), a.bundleCommand(),
		a.ipCommand(), a.whoCommand(), a.explainCommand(), a.lookupCommand(), a.allocCommand(), a.freeCommand(),
		a.releaseCommand(), a.gcCommand(),
		a.poolCommand(), a.excludeCommand(), a.reserveCommand(), a.snapshotCommand(),
		a.inviteCommand(), a.joinCommand(), a.drainCommand(), a.leaveCommand(), a.evictCommand(), a.forgetCommand(),
		a.rejoinCommand(), a.trustCommand(), a.recoverCommand(),
		a.keysCommand(), a.keygenCommand(), a.versionCommand(), a.completionCommand(), a.lockCommand(),
	}
}

// Execute runs the program with the arguments of its process, the first of
// which is its own name, reports what went wrong and returns the exit code.
func Execute(ctx context.Context, cfg Config, argv []string) int {
	cfg = cfg.withDefaults()
	args, docker, err := dockerArgs(argv)
	cfg.docker = docker
	if i := slices.IndexFunc(args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		// As JSON it would be another name, and perhaps the same as another one.
		err = &usageError{fmt.Sprintf("the argument %q is not UTF-8: write it in a terminal that speaks UTF-8, as with LANG=C.UTF-8", args[i])}
	}
	if err == nil && docker != nil && len(args) > 0 && args[0] == metadataWord {
		err = writeMetadata(cfg.Out, cfg.Version)
	} else if err == nil {
		root := New(cfg)
		if docker != nil {
			speakDocker(root)
		}
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	if text := errorText(ctx, err); text != "" {
		fmt.Fprintf(cfg.Err, "ringlet: %s\n", text)
	}
	return ExitCode(err)
}

// do makes a cobra RunE of a command that asks the plugin.
func (a *app) do(f func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		t, err := a.find(cmd.Context())
		if err != nil {
			return err
		}
		c := newClient(t)
		c.progress = a.cfg.Err
		defer c.close()
		return a.flushed(f(cmd.Context(), c, args))
	}
}

// flushed writes out what the command printed, also if it failed after that.
func (a *app) flushed(err error) error {
	_, told := errors.AsType[exitError](err) // by what could not be written
	if flushErr := a.out.Flush(); flushErr != nil && (err == nil || told) {
		return fmt.Errorf("the output could not be written: %w", flushErr)
	}
	return err
}
