package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) evictCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "evict PEER",
		SuggestFor: []string{"kick", "expel", "ban"},
		Short:      "Remove an unreachable host from the cluster",
		GroupID:    groupHosts,
		Long: `Remove an unreachable host from the cluster, so that decisions do not need its
vote. The other hosts do this by themselves after RINGLET_EVICT_AFTER.

The host keeps its addresses. They are quarantined: no other host hands them
out, because containers there may use them. If the host returns, it is admitted
again and continues with them. If it is gone for good, ringlet forget gives them
to the other hosts. A reachable host cannot be evicted: run ringlet leave there.

PEER is the name of the host, or its ID; the first 8 digits are enough.`,
		Example: `  ringlet evict host-c
  ringlet evict 88dd00ee11ff`,
		Args:              exactly("PEER"),
		ValidArgsFunction: a.completeFirst(peerWords(isLost)),
		RunE: a.do(func(ctx context.Context, c *client, args []string) error {
			var e admin.Eviction
			if err := c.call(ctx, http.MethodPost, path("peers", args[0], "evict"), nil, &e); err != nil {
				return err
			}
			return a.show(e, func() { a.view.evictedPeer(e) })
		}),
	}
}

// evictedPeer tells of a peer that was evicted.
func (v view) evictedPeer(e admin.Eviction) {
	name := safe(e.Peer)
	if e.KeptBack == 0 {
		v.wrap(plain, "evicted "+name+": ", "it has no quarantined addresses")
		return
	}
	v.wrap(plain, "evicted "+name+": ", plural(e.KeptBack, "address", "addresses")+" that it may use "+isAre(e.KeptBack)+
		" quarantined until it returns, or until you state with ringlet forget "+name+" that it is gone for good")
}

func (a *app) forgetCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:        "forget PEER",
		SuggestFor: []string{"delete-peer", "purge", "unquarantine"},
		Short:      "Release the addresses of an evicted host for good",
		GroupID:    groupHosts,
		Long: `State that an evicted host is gone for good. Its quarantined addresses then go
to the other hosts. --dry-run only shows them.

Do this only if the host runs no container and never starts again with its data:
it is destroyed, or its disk is wiped. If it is only cut off or switched off,
its containers use these addresses, or will, and other hosts hand them out a
second time. ringlet refuses to forget a host while a voter hears from it.

A host that was rebuilt under the same name on the same machine needs no forget:
it takes over the addresses of its former self.

PEER is the name of the host, or its ID; the first 8 digits are enough.`,
		Example: `  ringlet forget host-c --dry-run
  ringlet forget host-c
  ringlet forget 99ff00aa --dry-run -o json | jq .addresses`,
		Args:              exactly("PEER"),
		ValidArgsFunction: a.completeFirst(peerWords(isEvicted)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, args []string) error { return a.forget(ctx, c, args[0], dryRun) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be freed")
	return cmd
}

func (a *app) forget(ctx context.Context, c *client, peer string, dryRun bool) error {
	where, set := path("peers", peer), ""
	if dryRun {
		set = "true"
	}
	var f ipam.Forgetting
	if err := c.call(ctx, http.MethodDelete, query(where, "dry_run", set), nil, &f); err != nil {
		return err
	}
	return a.show(f, func() {
		a.view.forgotten(f, dryRun)
		if dryRun && f.Ranges > 0 {
			a.view.printf("%s", holdersOf(ctx, c, path("addresses")+"?all=true", func(u admin.Usage) bool { return u.Peer == f.Peer && !u.ConfirmedAt.IsZero() }, "it reported to hold:\n"))
		}
	})
}

// forgotten tells what forgetting a peer frees, and what would make that
// wrong.
func (v view) forgotten(f ipam.Forgetting, dryRun bool) {
	name := safe(f.Peer)
	if f.Ranges == 0 {
		v.wrap(plain, "nothing to free: ", "no address of "+name+" is quarantined")
		return
	}
	what := plural(f.Addresses, "address", "addresses") + " in " + plural(f.Ranges, "range", "ranges")
	if dryRun {
		v.wrap(plain, "would free: ", what+" of "+name+" (ID "+safe(f.ID)+")")
		v.wrap(yellow, "only if it is gone for good: ", "if "+name+" still runs cut off, or starts again with its data, its containers use addresses that other hosts hand out")
		return
	}
	v.wrap(plain, "forgot "+name+": ", what+" "+isAre(f.Addresses)+" free for the other hosts")
	v.wrap(yellow, "it must not come back as it was: ", "if "+name+" ever starts again, keep it off the network until you have removed its containers, and the plugin there with its data")
}

func (a *app) recoverCommand() *cobra.Command {
	var gone bool
	const flag = "i-know-the-others-are-gone"
	cmd := &cobra.Command{
		Use:        "recover --" + flag,
		SuggestFor: []string{"rescue", "bootstrap", "refound", "restore"},
		Short:      "Continue alone after losing a majority for good",
		GroupID:    groupHosts,
		Long: `Continue the cluster from this host alone, after a majority of the voters was
lost for good. What this host knows is kept: the pools, and the addresses of its
containers. All other hosts are evicted. Their addresses are quarantined until
ringlet forget frees them, host by host.

Do this only if none of the others still runs. A host that still runs is in
another cluster from then on, and never learns of this one: both may hand out
the same addresses. If the other hosts are only cut off or switched off, bring
them back instead; until then this host hands out and frees addresses in its own
ranges. If several hosts are left, stop ringlet on all but one, and run this
command on that one.

Afterwards the other hosts join again: on each of them remove the plugin with
its data, and install it with RINGLET_JOIN naming this host. A host with the
same name on the same machine takes over the addresses of its former self, with
those that its containers have.`,
		Example: `  ringlet status
  ringlet recover --` + flag,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !gone {
				return usagef(cmd, "this continues the cluster from this host alone and evicts all other hosts; nothing undoes it. Do it only if none of them still runs, or comes back with its data. If that is so, add --%s", flag)
			}
			return a.do(a.recover)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&gone, flag, false, "state that no other host still runs,\nor comes back with its data")
	return cmd
}

func (a *app) recover(ctx context.Context, c *client, _ []string) error {
	var r admin.Recovery
	if err := c.call(ctx, http.MethodPost, path("recover"), admin.Recover{TheOthersAreGone: true}, &r); err != nil {
		return err
	}
	return a.show(r, func() { a.view.recovered(r) })
}

// recovered tells of a cluster that was founded again.
func (v view) recovered(r admin.Recovery) {
	v.wrap(plain, "recovered: ", "this host is now the only one of its cluster, which has the new ID "+safe(r.Cluster))
	if len(r.Evicted) == 0 {
		return
	}
	names := make([]string, len(r.Evicted))
	for i, name := range r.Evicted {
		names[i] = safe(name)
	}
	v.wrap(plain, "evicted: ", strings.Join(names, ", ")+"; "+plural(r.KeptBack, "address is", "addresses are")+" quarantined until ringlet forget frees them")
	v.wrap(yellow, "next: ", "on each of those hosts that will return, remove the plugin with its data before it starts, and install it with RINGLET_JOIN naming this host")
	v.wrap(yellow, "then: ", "repeat what was requested here without a majority, if it is missing now: see ringlet pool ls, exclude ls and reserve ls")
}

// isAre agrees with n things.
func isAre(n uint64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
