package cli

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/journal"
)

// past tells who had an address at a time.
func (a *app) past(ctx context.Context, c *client, ip netip.Addr, at time.Time) error {
	var p journal.Past
	if err := c.get(ctx, query(path("journal", ip.String()), "at", at.UTC().Format(time.RFC3339Nano)), &p); err != nil {
		return err
	}
	return a.show(p, func() { a.view.past(p) })
}

// clockLayout is how a moment is shown that is not now.
const clockLayout = "2006-01-02 15:04:05 MST"

// past prints who had an address at a time.
func (v view) past(p journal.Past) {
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
		if p.Late {
			until += " (at the latest: found out afterwards)"
		}
	}
	who := "holder"
	switch {
	case p.State == "unknown" && p.Begins.IsZero():
		state = "unknown: the journal of this host is empty"
	case p.State == "unknown" && !p.At.Before(p.Begins):
		state = "unknown: the journal of this host does not say, although it begins at " + p.Begins.UTC().Format(clockLayout)
	case p.State == "unknown":
		state = "unknown: the journal of this host begins at " + p.Begins.UTC().Format(clockLayout)
	case p.State == "elsewhere":
		who = "before that"
		state = "not known here"
	case p.State == "free":
		who = "before that"
		if p.Holder == nil {
			state = "free, as far as this host knows"
		}
	}
	if p.Owner != "" {
		owner = p.Owner
		if p.Owner != "free" && p.Owner != "reserved" {
			owner += "'s; its own journal knows the holder"
		}
	}
	v.facts("address", p.Address.String(), "at", p.At.UTC().Format(clockLayout), "state", state, who, holder, "since", since, "until", until, "range", owner)
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
