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
		Short:      "Take a host that is lost out of the cluster",
		GroupID:    groupChange,
		Long: `Take a host that cannot be reached out of the cluster, so that its vote is needed
no more. The others do that by themselves after RINGLET_EVICT_AFTER.

It takes no address from the host: what it had is kept back from everybody, since
its containers may be using it. If the host comes back, it is admitted again and
goes on with what it had. If it is gone for good, ringlet forget gives that to the
others. A host that can be reached is not evicted: use ringlet leave there.

PEER is its name, or its ID, of which 8 digits will do.`,
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
		v.wrap(plain, "evicted "+name+": ", "nothing is kept back for it")
		return
	}
	v.wrap(plain, "evicted "+name+": ", plural(e.KeptBack, "address", "addresses")+" that it may be using "+isAre(e.KeptBack)+
		" kept back until it returns, or ringlet forget "+name+" says that it is gone for good")
}

func (a *app) forgetCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:        "forget PEER",
		SuggestFor: []string{"delete-peer", "purge", "unquarantine"},
		Short:      "Give the space of an evicted host that is gone for good to the others",
		GroupID:    groupChange,
		Long: `State that an evicted host is gone for good, so that the addresses which are kept
back for it go to the others. --dry-run only tells which.

This is right only if the host runs no container any more and never starts again
with the data that it had: destroyed, or its disk wiped. If it is only cut off or
switched off, its containers use these addresses, or will, and other hosts hand
them out a second time. It is refused while one of the hosts that vote hears from
it.

A host that was rebuilt needs no forget if its name and machine are the same: it
takes over the space of its former self.

PEER is its name, or its ID, of which 8 digits will do.`,
		Example: `  ringlet forget host-c --dry-run
  ringlet forget host-c
  ringlet forget 99ff00aa --dry-run -o json | jq .addresses`,
		Args:              exactly("PEER"),
		ValidArgsFunction: a.completeFirst(peerWords(isEvicted)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, args []string) error { return a.forget(ctx, c, args[0], dryRun) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what would be freed")
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
	return a.show(f, func() { a.view.forgotten(f, dryRun) })
}

// forgotten tells what forgetting a peer frees, and what would make that
// wrong.
func (v view) forgotten(f ipam.Forgetting, dryRun bool) {
	name := safe(f.Peer)
	if f.Ranges == 0 {
		v.wrap(plain, "nothing to free: ", "no address is kept back for "+name+" any more")
		return
	}
	what := plural(f.Addresses, "address", "addresses") + " in " + plural(f.Ranges, "range", "ranges")
	if dryRun {
		v.wrap(plain, "would free: ", what+" of "+name+" (ID "+safe(f.ID)+")")
		v.wrap(yellow, "only if it is gone for good: ", "if "+name+" still runs cut off, or starts again with its data, its containers use addresses that others get")
		return
	}
	v.wrap(plain, "forgot "+name+": ", what+" "+isAre(f.Addresses)+" free for the others")
	v.wrap(yellow, "it must not come back as it was: ", "if "+name+" ever starts again, keep it off the network until its containers are removed, and the plugin there with its data")
}

func (a *app) recoverCommand() *cobra.Command {
	var gone bool
	const flag = "i-know-the-others-are-gone"
	cmd := &cobra.Command{
		Use:        "recover --" + flag,
		SuggestFor: []string{"rescue", "bootstrap", "refound", "restore"},
		Short:      "Go on alone after a majority of the hosts was lost for good",
		GroupID:    groupChange,
		Long: `Found the cluster anew from this host alone, after a majority of the hosts that
vote was lost for good. What this host knows is kept: its pools, its containers'
addresses. All others are evicted, and what they had is kept back until ringlet
forget gives it up, host by host.

This is right only if none of the others still runs. One that does is in another
cluster from then on, never learns of this one, and both may hand out the same
addresses. Hosts that are only cut off or switched off are to be brought back
instead: meanwhile this one hands out and frees in the space that it has. Where
several hosts are left, stop ringlet on all but one, and do it on that one.

The others join anew afterwards: remove the plugin there with its data, and install
it with RINGLET_JOIN naming this host. Under the same name on the same machine a
host takes over the space of its former self, with what its containers have.`,
		Example: `  ringlet status
  ringlet recover --` + flag,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !gone {
				return usagef(cmd, "this founds the cluster anew from this host alone, and all other hosts are evicted: it is right only if none of them still runs or comes back with the data that it had, and nothing undoes it. If that is so, say --%s", flag)
			}
			return a.do(a.recover)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&gone, flag, false, "state that no other host still runs, or comes back with its data")
	return cmd
}

func (a *app) recover(ctx context.Context, c *client, _ []string) error {
	var r admin.Recovery
	if err := c.call(ctx, http.MethodPost, path("recover"), admin.Recover{TheOthersAreGone: true}, &r); err != nil {
		return err
	}
	return a.show(r, func() { a.view.recovered(r) })
}

// recovered tells of a cluster that was founded anew.
func (v view) recovered(r admin.Recovery) {
	v.wrap(plain, "recovered: ", "this host is the only one of its cluster, which has the ID "+safe(r.Cluster)+" from now on")
	if len(r.Evicted) == 0 {
		return
	}
	names := make([]string, len(r.Evicted))
	for i, name := range r.Evicted {
		names[i] = safe(name)
	}
	v.wrap(plain, "evicted: ", strings.Join(names, ", ")+", for which "+plural(r.KeptBack, "address is", "addresses are")+" kept back until ringlet forget gives them up")
	v.wrap(yellow, "next: ", "on each of those hosts that is to come back, remove the plugin with its data before it starts, and install it with RINGLET_JOIN naming this host")
	v.wrap(yellow, "then: ", "ask again for what was asked for here while no majority was reached, and is not there now: see ringlet pool ls, exclude ls and reserve ls")
}

// isAre agrees with n things.
func isAre(n uint64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
