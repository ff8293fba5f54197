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
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ringlet/ringlet/plugin/cli"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "man: name the directory and the version")
		os.Exit(2)
	}
	pages, err := write(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
	fmt.Printf("wrote %s (%d pages)\n", os.Args[1], pages)
}

// write writes all pages into the directory, and makes it if it is not there. It returns how many pages there are.
func write(dir, version string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	root := cli.New(cli.Config{Version: version, Serve: func(context.Context, cli.ServeOptions) error { return nil }})
	quiet(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Source: "ringlet " + version, Manual: "IP address management for Docker networks",
	}, dir); err != nil {
		return 0, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "ringlet*.1"))
	if err != nil {
		return 0, err
	}
	for _, page := range pages {
		if err := complete(page); err != nil {
			return 0, err
		}
	}
	return len(pages), nil
}

// common is what each page has before SEE ALSO: cobra has no place for it.
const common = `.SH EXIT STATUS
.TP
\fB0\fP
fine
.TP
\fB1\fP
failed, or refused
.TP
\fB2\fP
wrong command line
.TP
\fB3\fP
works but degraded, or done in part: the output says what is missing

.SH ENVIRONMENT
.TP
\fBRINGLET_SOCKET\fP
the plugin's admin socket, if --socket is not given
.TP
\fBDOCKER_HOST\fP, \fBDOCKER_CONTEXT\fP, \fBDOCKER_CONFIG\fP
the engine whose plugin is asked, as for the docker command
.TP
\fBNO_COLOR\fP, \fBTERM\fP
no colours if NO_COLOR is set, or TERM is dumb

.SH FILES
.TP
\fI/run/docker/plugins/ID/ringlet-admin.sock\fP
the admin socket of the managed plugin
.TP
\fI/run/ringlet/admin.sock\fP
the admin socket of ringlet serve, as the systemd unit of the manual has it
.TP
\fI/var/lib/docker/plugins/ID/propagated-mount/ringlet.db\fP
the plugin's database

`

// complete adds what is common to a page.
func complete(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, after, found := bytes.Cut(text, []byte(".SH SEE ALSO"))
	if found {
		after = append([]byte(".SH SEE ALSO"), after...)
	}
	return os.WriteFile(page, slices.Concat(before, []byte(common), after), 0o644)
}

// quiet leaves out the line that names the generator.
func quiet(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		quiet(sub)
	}
}
