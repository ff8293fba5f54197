package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/admin"
)

// past tells who had an address at a time, as the journals of all hosts know.
func (a *app) past(ctx context.Context, c *client, ip netip.Addr, at time.Time) error {
	var p admin.Past
	if err := c.get(ctx, query(path("journal", ip.String()), "at", at.UTC().Format(time.RFC3339Nano), "all", "true"), &p); err != nil {
		return err
	}
	if err := a.show(p, func() { a.view.pastOfAll(p) }); err != nil || len(p.Silent) == 0 || p.State == stateHeld {
		return err
	}
	return exitError(exitDegraded) // another host may know the holder
}

// clockLayout is how a moment is shown that is not now.
const clockLayout = "2006-01-02 15:04:05 MST"

// pastOfAll prints who had an address at a time, and which hosts have not answered.
func (v view) pastOfAll(p admin.Past) {
	v.past(p.PastOf, p.Silent)
	for _, other := range p.Also {
		v.printf("\n%s\n", v.paint(yellow, "the journal of "+safe(other.Peer)+" has another holder:"))
		v.past(other, nil)
	}
	if len(p.Silent) > 0 {
		v.printf("\n")
		v.wrap(yellow, "", "not answered: "+safe(strings.Join(p.Silent, ", "))+"; the journals there may know more")
	}
}

// past prints what one journal knows of an address at a time.
func (v view) past(p admin.PastOf, silent []string) {
	state, holder, since, until, owner := p.State, "", "", "", ""
	if p.Holder != nil {
		holder = p.Holder.String()
		if !p.Since.IsZero() {
			since = p.Since.UTC().Format(clockLayout)
		}
		until = "still"
		if !p.Until.IsZero() {
			until = p.Until.UTC().Format(clockLayout)
		}
		if p.Inferred {
			until += " (at the latest: found out afterwards)"
		}
	}
	who, of := "holder", "the journal of "+p.Peer
	switch {
	case p.State == "unknown" && p.Begins.IsZero():
		state = "unknown: " + of + " is empty"
	case p.State == "unknown" && !p.At.Before(p.Begins):
		state = "unknown: " + of + " does not say, although it begins at " + p.Begins.UTC().Format(clockLayout)
	case p.State == "unknown":
		state = "unknown: " + of + " begins at " + p.Begins.UTC().Format(clockLayout)
	case p.State == "elsewhere":
		who = "before that"
		state = "not known by any host that answered"
	case p.State == "free" && p.Owner == "reserved":
		who, state = "before that", "reserved"
	case p.State == "free":
		who = "before that"
		if p.Holder == nil {
			state = "free, as far as " + p.Peer + " knows"
		}
	}
	if p.Owner != "" && state != p.Owner {
		owner = p.Owner
		switch {
		case slices.Contains(silent, p.Owner):
			owner += "'s, which has not answered; its journal knows the holder"
		case p.Owner != "free" && p.Owner != "reserved":
			owner += "'s"
		}
	}
	v.facts("address", p.Address.String(), "at", p.At.UTC().Format(clockLayout), "state", state, who, holder,
		"since", since, "until", until, "range", owner, "reported by", p.Peer)
}

// parseTime reads a time as people write it, in the zone of now.
func parseTime(cmd *cobra.Command, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if at, err := time.ParseInLocation("15:04", text, now.Location()); err == nil {
		return time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, now.Location()), nil
	}
	return time.Time{}, usagef(cmd, "%s", fmt.Sprintf("%q is not a time: write it like \"2026-11-20 09:00\", 09:00 for today, or 2h for two hours ago", text))
}
