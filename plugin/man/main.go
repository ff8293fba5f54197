// Command man writes the manual pages of ringlet into a directory, one for each
// command, from the same source as its help. It is a tool of the build, no part
// of the program: what it is built on stays out of that.
//
//	go run ./plugin/man build/man v1.2.3
//
// The pages carry the month of SOURCE_DATE_EPOCH, so that the same source makes
// the same bytes.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ringlet/ringlet/plugin/cli"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "man: name the directory and the version")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes all pages into the directory, and makes it if it is not there.
func write(dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.New(cli.Config{Version: version, Serve: func(context.Context, cli.ServeOptions) error { return nil }})
	quiet(root)
	return doc.GenManTree(root, &doc.GenManHeader{
		Title: "RINGLET", Section: "1", Source: "ringlet " + version, Manual: "IP address management for Docker networks",
	}, dir)
}

// quiet leaves out the line that names the generator.
func quiet(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		quiet(sub)
	}
}
