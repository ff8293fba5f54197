// Command ringlet is a Docker IPAM plugin and its command line. One static
// binary is the plugin's own process (ringlet serve), what operators and
// scripts call (ringlet status), and a plugin of the docker command (docker
// ringlet status). This package wires the parts together; each of them stands
// in a package of its own.
//
// It refuses to know what any of them decides.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/privilege"
)

// version is what was built; the linker sets it.
var version = "devel"

func main() {
	os.Exit(program(os.Args, func(ctx context.Context, opts cli.ServeOptions) error {
		opts.Drop = privilege.Drop
		return run(ctx, opts)
	}))
}

func program(argv []string, serve func(context.Context, cli.ServeOptions) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Execute(ctx, cli.Config{Version: version, Serve: serve}, argv)
}
