package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
)

// completeTimeout is how long the shell of somebody who pressed the tab key
// may hang.
const completeTimeout = time.Second

// wordsFunc asks the plugin for the words that may stand somewhere.
type wordsFunc func(ctx context.Context, c *client) ([]cobra.Completion, error)

// complete offers words of the plugin's, and no files. Where the plugin does
// not answer there are none: nobody reads an error here.
func (a *app) complete(words wordsFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		t, err := a.find(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c := newClient(t)
		defer c.close()
		found, _ := words(ctx, c)
		return slices.DeleteFunc(found, func(s string) bool { return s == "" || !strings.HasPrefix(s, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFirst is complete for a command with one argument.
func (a *app) completeFirst(words wordsFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.complete(words)(cmd, args, begun)
	}
}

// files lets the shell complete the path of a file.
func files(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// word returns a completion; none, which is empty, for a word that could steer
// the terminal or would have to be quoted.
func word(text, about string) cobra.Completion {
	if text == "" || text != safe(text) || strings.ContainsFunc(text, unicode.IsSpace) {
		return ""
	}
	return cobra.CompletionWithDesc(text, safe(about))
}

// poolWords are the names of the pools and of the Docker networks on them, and the CIDRs of all.
func poolWords(ctx context.Context, c *client) ([]cobra.Completion, error) {
	var pools []ipam.PoolStatus
	err := c.get(ctx, path("pools"), &pools)
	var out []cobra.Completion
	for _, p := range pools {
		out = append(out, word(p.Name, p.Pool.String()), word(p.Pool.String(), cmp.Or(p.Name, networksText(p.NetworkNames))))
		for _, name := range p.NetworkNames {
			if name != p.Name {
				out = append(out, word(name, "network on "+p.Pool.String()))
			}
		}
	}
	return out, err
}

// peerWords are the peers that pass, by name where only one has it, else by
// ID.
func peerWords(pass func(p, self ipam.PeerStatus) bool) wordsFunc {
	return func(ctx context.Context, c *client) ([]cobra.Completion, error) {
		var st ipam.Status
		err := c.get(ctx, path("status"), &st)
		named := map[string]int{}
		for _, p := range st.Peers {
			named[p.Name]++
		}
		var out []cobra.Completion
		for _, p := range st.Peers {
			switch {
			case !pass(p, st.Self):
			case named[p.Name] > 1 || word(p.Name, "") == "":
				out = append(out, word(p.ID, p.Name+", "+p.State))
			default:
				out = append(out, word(p.Name, p.State))
			}
		}
		return out, err
	}
}

// isLost passes the peers of the cluster that cannot be reached: no other can
// be evicted.
func isLost(p, self ipam.PeerStatus) bool {
	return p.State != stateEvicted && p.ID != self.ID && !p.Reachable
}

// isEvicted passes the peers that can be forgotten.
func isEvicted(p, _ ipam.PeerStatus) bool { return p.State == stateEvicted }

// addressWords are the addresses that pass.
func addressWords(pass func(ipam.AddressStatus) bool) wordsFunc {
	return func(ctx context.Context, c *client) ([]cobra.Completion, error) {
		var list []ipam.AddressStatus
		err := c.get(ctx, path("addresses"), &list)
		var out []cobra.Completion
		for _, s := range list {
			if pass(s) {
				out = append(out, word(s.Address.String(), cmp.Or(shown(s), s.Kind)))
			}
		}
		return out, err
	}
}

// holderWords are the holders of addresses that pass.
func holderWords(pass func(ipam.AddressStatus) bool) wordsFunc {
	return func(ctx context.Context, c *client) ([]cobra.Completion, error) {
		var list []ipam.AddressStatus
		err := c.get(ctx, path("addresses"), &list)
		var out []cobra.Completion
		seen := map[string]bool{}
		for _, s := range list {
			if name := holder(s); pass(s) && !seen[name] {
				seen[name] = true
				out = append(out, word(name, s.Kind))
			}
		}
		return out, err
	}
}

// isHeld passes what somebody other than the host itself holds.
func isHeld(s ipam.AddressStatus) bool { return s.State == stateHeld }

// isClients passes what something outside Docker holds.
func isClients(s ipam.AddressStatus) bool { return isHeld(s) && s.Kind == "client" }
