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
		Short:      "Connect this host to another one, without a restart",
		GroupID:    groupHosts,
		Long: `Connect this host to another one while both run. If this host is looking for a
cluster, it finds the cluster there. If it has lost all others, because they
have new addresses, it finds them again. It remembers the hosts that it met,
also after a restart if they are in one cluster. RINGLET_JOIN does not change:
set it, too, when you can.

A host that is in a cluster with pools does not change to another cluster,
because two clusters cannot merge. ringlet status then says so.

ADDR is host or host:port. The default port is that of RINGLET_BIND on this
host.`,
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
		v.wrap(yellow, "a host answered at "+safe(j.Address)+", and is gone again: ", "try again in a few seconds")
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
	v.wrap(plain, "next: ", "ringlet status shows whether this host is in the cluster")
}
