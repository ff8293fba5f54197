package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// bundled are the parts of a bundle that the plugin answers.
var bundled = []struct{ name, method, path string }{
	{"about.json", http.MethodGet, "/v1/about"},
	{"status.json", http.MethodGet, "/v1/status"},
	{"peers.json", http.MethodGet, "/v1/peers"},
	{"pools.json", http.MethodGet, "/v1/pools"},
	{"ring.json", http.MethodGet, "/v1/ring"},
	{"addresses.json", http.MethodGet, "/v1/addresses"},
	{"reservations.json", http.MethodGet, "/v1/reservations"},
	{"keys.json", http.MethodGet, "/v1/keys"},
	{"check.json", http.MethodPost, "/v1/check"},
	{"metrics.txt", http.MethodGet, "/metrics"},
	{"log.txt", http.MethodGet, "/v1/log"},
}

func (a *app) bundleCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:        "bundle",
		SuggestFor: []string{"bugreport", "sysdump", "support", "debug", "report"},
		Short:      "Write all that helps to find out what is wrong into one file",
		GroupID:    groupLook,
		Long: `Write a tar.gz with the status, peers, pools, ring, addresses, settings, versions,
metrics, the last lines of the log, a check and what ringlet doctor finds.

Keys and tokens are not in it: keys by their fingerprints alone. The names of
hosts and containers and their addresses are: look through it before you give it to
others. A part that could not be had is there with its error.`,
		Example: `  ringlet bundle
  ringlet bundle --out /tmp/host-a.tar.gz
  ringlet bundle --out - | tar tzv`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.bundle(ctx, c, file) })(cmd, args)
		},
	}
	cmd.Flags().StringVar(&file, "out", "", "the `file` to write, or - for standard output (default: a name with host and time)")
	_ = cmd.RegisterFlagCompletionFunc("out", files) // the flag exists
	return cmd
}

func (a *app) bundle(ctx context.Context, c *client, file string) error {
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil {
		return err // nobody is there to ask
	}
	at := a.cfg.Now().UTC()
	dir := "ringlet-" + fileName(st.Self.Name) + "-" + at.Format("20060102-150405")
	if file == "" {
		file = dir + ".tar.gz"
	}
	if file == "-" {
		return a.writeBundle(ctx, c, a.out, dir, at)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the bundle cannot be written: %w", err)
	}
	if err := errors.Join(a.writeBundle(ctx, c, f, dir, at), f.Close()); err != nil {
		_ = os.Remove(file) // half a bundle is none
		return err
	}
	wrote := struct {
		File string `json:"file"`
	}{file}
	return a.show(wrote, func() {
		a.view.wrap(plain, "wrote ", safe(file)+", without keys and tokens, and with the names of hosts and containers: look through it before you give it to others")
	})
}

// fileName returns a name as it may stand in the name of a file.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, s)
}

func (a *app) writeBundle(ctx context.Context, c *client, out io.Writer, dir string, at time.Time) error {
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	add := func(name string, text []byte) error {
		err := archive.WriteHeader(&tar.Header{Name: dir + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: at})
		if err == nil {
			_, err = archive.Write(text)
		}
		if err != nil {
			return fmt.Errorf("the bundle cannot be written: %w", err)
		}
		return nil
	}
	for _, part := range bundled {
		text, err := c.text(ctx, part.method, part.path)
		name := part.name
		if err != nil {
			name, text = name+".error", []byte(err.Error()+"\n")
		}
		if err := add(name, text); err != nil {
			return err
		}
	}
	if err := add("doctor.json", a.doctorText(ctx, c)); err != nil {
		return err
	}
	return errors.Join(archive.Close(), zip.Close())
}

// doctorText is what ringlet doctor -o json says.
func (a *app) doctorText(ctx context.Context, c *client) []byte {
	var about admin.About
	var st ipam.Status
	err := c.get(ctx, path("about"), &about)
	if err == nil {
		err = c.get(ctx, path("status"), &st)
	}
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	text, _ := json.MarshalIndent(a.diagnose(ctx, about, st), "", "  ") // strings alone
	return append(text, '\n')
}
