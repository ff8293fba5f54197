package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "explain IP|NAME",
		SuggestFor: []string{"why", "describe", "story", "show"},
		Short:      "Explain one address: owner, holder, refusals, next step",
		GroupID:    groupAddresses,
		Long: `Show everything that this host knows about an address: its holder and since
when, the owner of its range, why it is reserved, whether the engine's last list
has it, and what to do next. Also show who was refused the address since the
plugin started, and why.

The name of a container, or of another holder, stands for its address. Another
host knows more about the addresses in its own ranges: ask there.`,
		Example: `  ringlet explain 10.50.0.7
  ringlet explain web-1
  ringlet explain 10.50.0.7 -o json | jq .refusals`,
		Args:              exactly("IP or name"),
		ValidArgsFunction: a.completeFirst(addressWords(func(ipam.AddressStatus) bool { return true })),
		RunE: func(cmd *cobra.Command, args []string) error {
			named := isHolderName(args[0])
			ip, err := parseIP(cmd, args[0])
			if err != nil && !named {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				if named {
					has, err := c.addressesOfHolder(ctx, args[0])
					switch {
					case err != nil:
						return err
					case len(has) > 1:
						var list []string
						for _, s := range has {
							list = append(list, s.Address.String())
						}
						return fmt.Errorf("%s has the addresses %s: explain one of them", safe(args[0]), strings.Join(list, " and "))
					}
					ip = has[0].Address
				}
				var e admin.Story
				if err := c.get(ctx, path("addresses", ip.String(), "explain"), &e); err != nil {
					return err
				}
				return a.show(e, func() { a.view.explanation(e.Explanation, e.Identity) })
			})(cmd, args)
		},
	}
}

// explanation prints the story of an address: the verdict, what it rests on,
// who was refused it, and what to do.
func (v view) explanation(e ipam.Explanation, id *admin.Identity) {
	v.wrap(storyStyle(e), e.Address.String()+" ", safe(e.Verdict))
	if e.Conflict != "" {
		v.wrap(red, "conflict: ", safe(e.Conflict))
	}
	if e.Next != "" {
		v.wrap(plain, "next: ", safe(e.Next))
	}
	v.printf("\n")
	v.story("pool", cmp.Or(e.PoolName, e.Pool.String())+poolStory(e))
	v.story("range", stretch(e.First.String(), e.Last.String())+", "+ownerStory(e))
	if e.Reserved != nil {
		v.story("reserved", strings.TrimSuffix(e.Reserved.Kind+": "+e.Reserved.Note, ": "))
	}
	v.story("holder", holderStory(e))
	v.story("identity", identityText(id))
	if e.Engine != nil {
		v.story("engine", v.engineStory(*e.Engine))
	}
	if e.Rests != nil {
		v.story("rests", "until "+timeText(*e.Rests)+", unless the pool has no other")
	}
	if e.Retry != nil {
		v.story("retried", "at "+timeText(*e.Retry))
	}
	for _, r := range e.Refusals {
		times := ""
		if r.Times > 1 {
			times = fmt.Sprintf(" (%d times since %s)", r.Times, timeText(r.First))
		}
		v.story("refused", "to "+r.To+", "+v.ago(r.Last)+times+": "+r.Why)
	}
}

// storyWidth is that of the names in a story.
const storyWidth = maxIndent

// story prints one line of it, if there is something to tell.
func (v view) story(name, text string) {
	if text != "" {
		v.wrap(bold, fmt.Sprintf("%-*s", storyWidth, name), safe(text))
	}
}

// storyStyle is red for what somebody should mend.
func storyStyle(e ipam.Explanation) style {
	switch {
	case e.Conflict != "", e.OwnedHow == "evicted", e.OwnedHow == "unreachable", e.State == stateStranger:
		return red
	case freed(e.AddressStatus):
		return green
	}
	return bold
}

func poolStory(e ipam.Explanation) string {
	var out string
	if e.PoolName != "" {
		out = " (" + e.Pool.String() + ")"
	}
	switch e.Origin {
	case "choice":
		out += ", chosen by ringlet for a network"
	case "operator":
		out += ", made by an operator"
	default:
		out += ", made for a network"
	}
	out += ", with " + plural(e.NetworksHere, "network", "networks") + " of this host on it"
	if len(e.NetworkNames) > 0 {
		out += ": " + strings.Join(e.NetworkNames, ", ")
	}
	return out
}

func ownerStory(e ipam.Explanation) string {
	since := ""
	if e.Version > 0 { // the last address of a /64 is in no range, and nothing was decided of it
		since = fmt.Sprintf(" since slot %d", e.Version)
	}
	switch e.OwnedHow {
	case "":
		return e.Owner + since
	case "self":
		return "this host's (" + e.Owner + ")" + since + inZone(e.Zone)
	}
	return e.Owner + "'s (" + e.OwnedHow + ")" + since + inZone(e.Zone)
}

func inZone(zone string) string {
	if zone == "" {
		return ""
	}
	return ", in zone " + zone
}

// holderStory says of a holder what the verdict has no room for.
func holderStory(e ipam.Explanation) string {
	var parts []string
	for _, p := range []struct{ name, text string }{{"container ", e.Container}, {"MAC ", e.MAC}} {
		if p.text != "" {
			parts = append(parts, p.name+p.text)
		}
	}
	if len(parts) > 0 && freed(e.AddressStatus) {
		parts[0] = "last " + parts[0]
	}
	return strings.Join(parts, ", ")
}

func (v view) engineStory(s ipam.EngineSight) string {
	switch {
	case s.Looked == nil:
		return "its list was not read yet since the plugin started"
	case s.Missing != nil:
		return "missing from its lists since " + timeText(*s.Missing)
	case s.Listed && s.Container != "":
		return "in its last list, " + v.ago(*s.Looked) + ", for container " + shortID(s.Container)
	case s.Listed:
		return "in its last list, " + v.ago(*s.Looked)
	}
	return "its list was not read since then; the last one is from " + timeText(*s.Looked)
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
