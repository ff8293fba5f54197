package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) joinCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "join ADDR",
		SuggestFor: []string{"meet", "connect", "add", "seed"},
		Short:      "Name another host to this one, without a restart",
		GroupID:    groupChange,
		Long: `Name another host to this one while it runs: one that looks for a cluster finds it
there, and one that has lost sight of the others, as they have all moved, finds them
again. From then on it looks for whom it has met, also after a restart once both are
of one cluster. RINGLET_JOIN is not changed: set it, too, when there is occasion.

It does not make a host take part that has a cluster with pools of its own: two
clusters do not mix, and ringlet status says so.

ADDR is host or host:port, the port that of RINGLET_BIND on this host if it is left
out.`,
		Example: `  ringlet join host-b
  ringlet join 192.168.1.11:7950
  ringlet join '[fd00::12]:7950' -o json | jq -r '.met[].name'`,
		Args:              exactly("ADDR"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              a.do(a.join),
	}
}

func (a *app) join(ctx context.Context, c *client, args []string) error {
	var j admin.Joined
	if err := c.call(ctx, http.MethodPost, path("peers"), admin.Join{Address: args[0]}, &j); err != nil {
		return err
	}
	return a.show(j, func() { a.view.joined(j) })
}

// joined tells whom this peer has met.
func (v view) joined(j admin.Joined) {
	if len(j.Met) == 0 {
		v.wrap(yellow, "somebody answered at "+safe(j.Address)+", and left: ", "try again in a few seconds")
		return
	}
	met := make([]string, len(j.Met))
	for i, p := range j.Met {
		name := p.Name
		if name == "" {
			name = "peer " + p.ID[:min(len(p.ID), 8)]
		}
		met[i] = safe(name) + " at " + safe(p.Address)
	}
	v.wrap(plain, "met: ", strings.Join(met, ", "))
	v.wrap(plain, "next: ", "ringlet status says how this host stands with the others")
}
