package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/config"
)

// crashPart is the part that is left out where no process has crashed.
const crashPart = "crash.txt"

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
	{crashPart, http.MethodGet, "/v1/crash"},
}

func (a *app) bundleCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:        "bundle",
		SuggestFor: []string{"bugreport", "sysdump", "support", "debug", "report"},
		Short:      "Collect a support bundle, without secrets",
		GroupID:    groupStatus,
		Long: `Write a tar.gz file with the status, peers, pools, ring, addresses, settings,
versions, metrics, the end of the log, the last crash, and the results of
ringlet check and ringlet doctor.

The bundle has no keys or tokens: a key is shown by its fingerprint. It has the
names of hosts and containers, and their addresses. Look through it before you
give it to others. If a part cannot be collected, the bundle has the error in
its place. If a managed plugin does not answer, the bundle has only its settings
and the results of ringlet doctor.`,
		Example: `  ringlet bundle
  ringlet bundle --out /tmp/host-a.tar.gz
  ringlet bundle --out - | tar tzv`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.flushed(a.bundle(cmd.Context(), file))
		},
	}
	cmd.Flags().StringVar(&file, "out", "", "the `file` to write, or - for standard output\n(default: a name with host and time)")
	_ = cmd.RegisterFlagCompletionFunc("out", files) // the flag exists
	return cmd
}

// bundlePart is a file of a bundle.
type bundlePart struct {
	name string
	text []byte
}

func (a *app) bundle(ctx context.Context, file string) error {
	t, err := a.find(ctx)
	var host string
	var parts iter.Seq[bundlePart]
	if err == nil {
		c := newClient(t)
		defer c.close()
		var st ipam.Status
		if err = c.get(ctx, path("status"), &st); err == nil {
			host, parts = st.Self.Name, a.answered(ctx, c)
		}
	}
	next := ""
	if t.silent(err) {
		parts, err = a.fromOutside(ctx, t, err), nil
		if host, _ = os.Hostname(); host == "" {
			host = "host"
		}
		next = "; the plugin does not answer: also add the engine's log, as from journalctl -u docker"
	}
	if err != nil {
		return err // nobody is there to ask
	}
	at := a.cfg.Now().UTC()
	dir := "ringlet-" + fileName(host) + "-" + at.Format("20060102-150405")
	if file == "" {
		file = dir + ".tar.gz"
	}
	if file == "-" {
		return writeBundle(a.out, dir, at, parts)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the bundle cannot be written: %s exists already: name another file with --out, or remove that one", file)
	}
	if err != nil {
		return fmt.Errorf("the bundle cannot be written: %w", err)
	}
	if err := errors.Join(writeBundle(f, dir, at, parts), f.Close()); err != nil {
		_ = os.Remove(file) // half a bundle is none
		return err
	}
	wrote := struct {
		File string `json:"file"`
	}{file}
	return a.show(wrote, func() {
		a.view.wrap(plain, "wrote ", safe(file)+", without keys and tokens, but with the names of hosts and containers: look through it before you give it to others"+next)
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

func writeBundle(out io.Writer, dir string, at time.Time, parts iter.Seq[bundlePart]) error {
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	for p := range parts {
		err := archive.WriteHeader(&tar.Header{Name: dir + "/" + p.name, Mode: 0o600, Size: int64(len(p.text)), ModTime: at})
		if err == nil {
			_, err = archive.Write(p.text)
		}
		if err != nil {
			return fmt.Errorf("the bundle cannot be written: %w", err)
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

// answered are the parts that the plugin answers.
func (a *app) answered(ctx context.Context, c *client) iter.Seq[bundlePart] {
	return func(yield func(bundlePart) bool) {
		for _, p := range bundled {
			text, err := c.text(ctx, p.method, p.path)
			name := p.name
			if name == crashPart && err == nil && len(text) == 0 {
				continue // there was none
			}
			if err != nil {
				name, text = name+".error", []byte(err.Error()+"\n")
			}
			if !yield(bundlePart{name, text}) {
				return
			}
		}
		found, err := a.diagnose(ctx, c)
		if err != nil {
			yield(bundlePart{"doctor.json.error", []byte(err.Error() + "\n")})
			return
		}
		yield(bundlePart{"doctor.json", asJSON(found)})
	}
}

// fromOutside are the parts that can be had of a plugin which does not answer, as
// err says.
func (a *app) fromOutside(ctx context.Context, t target, err error) iter.Seq[bundlePart] {
	plugin := struct {
		ID       string   `json:"id"`
		Name     string   `json:"name"`
		Enabled  bool     `json:"enabled"`
		Settings []string `json:"settings"`
	}{t.plugin.ID, t.plugin.Name, t.plugin.Enabled, config.Hide(t.plugin.Env)}
	parts := []bundlePart{{"plugin.json", asJSON(plugin)}, {"doctor.json", asJSON(a.diagnoseSilent(ctx, t, err))}}
	if root, err := a.cfg.EngineRoot(ctx, t.host); err == nil {
		if crash, err := lastwords.ReadCrash(t.plugin.Data(root)); err == nil {
			parts = append(parts, bundlePart{crashPart, []byte(crash.String())})
		}
	}
	return slices.Values(parts)
}

// asJSON is what -o json shows of it.
func asJSON(v any) []byte {
	text, _ := json.MarshalIndent(v, "", "  ") // strings alone
	return append(text, '\n')
}
