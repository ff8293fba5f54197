package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "check",
		SuggestFor: []string{"fsck", "verify", "audit"},
		Short:      "Check records against the database and the engine",
		GroupID:    groupStatus,
		Long: `Check the records of the plugin. First the records themselves: no address has
two owners, every address is accounted for, and so on. Then the database: it has
what the plugin knows. Then the engine: it has the containers that hold
addresses. With -o json the output is the report that ringlet gc reads.

Exit code 1: the records contradict each other, or the database differs. Keep
the plugin's data, and report the output of this command. Exit code 3: an
address is held for a container that the engine does not have, or a container
has an address that is not its own.`,
		Example: `  ringlet check
  ringlet check -o json > report.json`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			var audit ipam.Audit
			if err := c.call(ctx, http.MethodPost, path("check"), nil, &audit); err != nil {
				return err
			}
			if err := a.show(audit, func() { a.view.check(audit) }); err != nil {
				return err
			}
			switch audit.Verdict {
			case ipam.Failed:
				return exitError(exitFailed)
			case ipam.Degraded:
				return exitError(exitDegraded)
			case ipam.Fine:
			}
			return nil
		}),
	}
}

func (v view) check(audit ipam.Audit) {
	switch broken := len(audit.Broken) + len(audit.Database); {
	case broken > 0:
		v.wrap(red, "failed: ", "the records contradict each other: keep the plugin's data, and report this")
	case len(audit.Findings) > 0:
		v.wrap(yellow, "degraded: ", "the records are sound, but "+plural(len(audit.Findings), "address does",
			"addresses do")+" not agree with the engine")
	default:
		v.wrap(green, "fine: ", "the records are sound, and the database agrees with them")
	}
	for _, text := range audit.Broken {
		v.wrap(plain, "  records: ", safe(text))
	}
	for _, text := range audit.Database {
		v.wrap(plain, "  database: ", safe(text))
	}
	if audit.Looked == nil {
		v.wrap(plain, "engine: ", "the plugin has not read its list since it started, so leaks are not known")
	} else {
		v.wrap(plain, "engine: ", "it listed "+plural(audit.Listed, "address",
			"addresses")+" "+v.ago(*audit.Looked)+"; containers hold "+fmt.Sprint(audit.Held)+" here")
	}
	for _, f := range audit.Findings {
		v.wrap(yellow, "  "+f.Code+": ", safe(f.Text))
		v.wrap(plain, "    next: ", safe(f.Next))
	}
}

func (a *app) gcCommand() *cobra.Command {
	var file string
	var dryRun bool
	cmd := &cobra.Command{
		Use:                   "gc [--from FILE] [--dry-run]",
		DisableFlagsInUseLine: true,
		SuggestFor:            []string{"clean", "cleanup", "collect", "repair", "prune", "mend"},
		Short:                 "Free leaked addresses now",
		GroupID:               groupAddresses,
		Long: `Free the addresses that ringlet check finds leaked: held for containers that the
engine does not have. The plugin frees them by itself within about a minute. Use
this command if you want to see them first, or not to wait. With --from, take
the findings of an earlier check.

The check only says where to look. ringlet asks the engine again. It frees an
address only if the same container still holds it, and if two lists of the
engine, 20 seconds apart, both lack it. It frees no address that was handed out
a moment ago, and none that the check did not find.

Exit code 3: some of the addresses are kept. The output says why.`,
		Example: `  ringlet gc --dry-run
  ringlet check -o json > report.json
  ringlet gc --from report.json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return a.do(func(ctx context.Context, c *client, _ []string) error {
					var report ipam.Audit
					if err := c.call(ctx, http.MethodPost, path("check"), nil, &report); err != nil {
						return err
					}
					return a.collect(ctx, c, report, dryRun)
				})(cmd, args)
			}
			report, err := a.readReport(file)
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.collect(ctx, c, report, dryRun) })(cmd, args)
		},
	}
	cmd.Flags().StringVar(&file, "from", "", "the report `file`, or - for standard input")
	_ = cmd.RegisterFlagCompletionFunc("from", files) // the flag exists
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be freed")
	return cmd
}

// readReport reads what ringlet check -o json wrote.
func (a *app) readReport(file string) (ipam.Audit, error) {
	in := a.cfg.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return ipam.Audit{}, fmt.Errorf("the report cannot be read: %w", err)
		}
		defer f.Close()
		in = f
	}
	var report ipam.Audit
	text, err := io.ReadAll(in)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	switch {
	case err != nil:
		return ipam.Audit{}, unreadable(file, "a report of ringlet check -o json", err)
	case report.PeerID == "":
		return ipam.Audit{}, fmt.Errorf("%s is not a report of ringlet check -o json", source(file))
	}
	return report, nil
}

// maxCollect is how many findings go into one request, whose body is limited.
const maxCollect = 50

func (a *app) collect(ctx context.Context, c *client, report ipam.Audit, dryRun bool) error {
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil {
		return err
	}
	if st.Self.ID != report.PeerID {
		return fmt.Errorf("the report is from %s (peer %s), and this host is %s (peer %s): use it on the host that it is from", safe(report.Peer), safe(report.PeerID), safe(st.Self.Name), safe(st.Self.ID))
	}
	done := []ipam.Collected{}
	var failed error
	for some := range slices.Chunk(report.Findings, maxCollect) {
		var batch []ipam.Collected
		if failed = c.call(ctx, http.MethodPost, path("gc"), admin.Collection{Findings: some, DryRun: dryRun}, &batch); failed != nil {
			break // what was freed before is told
		}
		done = append(done, batch...)
	}
	if len(done) > 0 || failed == nil {
		if err := a.show(done, func() { a.view.collected(done, dryRun) }); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	for _, d := range done {
		if d.Outcome == ipam.CollectedKept {
			return exitError(exitDegraded)
		}
	}
	return nil
}

func (v view) collected(done []ipam.Collected, dryRun bool) {
	if len(done) == 0 {
		v.printf("nothing to free: no address is leaked\n")
		return
	}
	words := map[string]string{ipam.CollectedFreed: "freed ", ipam.CollectedFree: "already free ", ipam.CollectedKept: "kept "}
	if dryRun {
		words[ipam.CollectedFreed] = "would free "
	}
	for _, d := range done {
		v.wrap(plain, words[d.Outcome]+d.Address.String()+": ", safe(d.Why))
	}
}
