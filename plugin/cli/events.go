package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/events"
)

// eventsOptions are the flags of ringlet events.
type eventsOptions struct {
	follow            bool
	kind, pool, since string
	last              int // of the kept ones, how many to show; below 0: all

	after events.ID // what since names: an event,
	from  time.Time // or a time
}

// followed is how many of the kept events come before those that are followed, unless the user says so otherwise.
const followed = 10

func (a *app) eventsCommand() *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:     "events",
		Short:   "Show recent events, or follow new ones",
		GroupID: groupStatus,
		Long: `Show the last 4096 events on this host since the plugin started: addresses that
were handed out or freed, ranges that changed their owner, hosts that joined or
left, problems that began or ended. Times are UTC. With -o json each event is
one line; its id is a value for --since.

Kinds of events:

` + kindList(),
		Example: `  ringlet events
  ringlet events --follow --kind granted,freed --pool 10.50.0.0/24
  ringlet events -n 20
  ringlet events --since 10m
  ringlet events --follow -o json --since 17-42-9e3779b9`,
		Args: exactly(),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.read(cmd, a.cfg.Now()); err != nil {
			return err
		}
		return a.do(func(ctx context.Context, c *client, _ []string) error { return a.events(ctx, c, o) })(cmd, args)
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "continue with new events, until interrupted")
	f.StringVar(&o.kind, "kind", "", "only events of these `kinds`, separated by commas")
	_ = cmd.RegisterFlagCompletionFunc("kind", completeKinds) // the flag exists
	a.poolFlag(cmd, &o.pool, "only events of this `pool`, by subnet, name or network")
	f.StringVar(&o.since, "since", "", "only events after this `TIME`: 10m for ten minutes ago,\n09:00 for today; or after the event with this ID")
	f.IntVarP(&o.last, "last", "n", 0, "of the events until now, show the last `N`\n(default: all, or 10 with --follow)")
	return cmd
}

// read reads the flags that the plugin could not make sense of.
func (o *eventsOptions) read(cmd *cobra.Command, now time.Time) (err error) {
	known := slices.Sorted(maps.Keys(events.Kinds()))
	for kind := range strings.SplitSeq(o.kind, ",") {
		if o.kind != "" && !slices.Contains(known, kind) {
			return usagef(cmd, "%q is no kind of event; the kinds are %s", kind, strings.Join(known, ", "))
		}
	}
	switch {
	case o.last < 0:
		return usagef(cmd, "-n is the number of events to show, 0 or more, not %d", o.last)
	case cmd.Flags().Changed("last"):
	case o.since == "" && o.follow:
		o.last = followed
	default:
		o.last = -1
	}
	if o.since != "" {
		if o.from, err = parseTime(cmd, o.since, now); err != nil { // a date looks like an ID, but no ID like a date
			if o.after, err = events.ParseID(o.since); err != nil {
				return usagef(cmd, "%q is neither a time, such as 10m for ten minutes ago, 09:00 or \"2026-11-20 09:00\", nor the ID of an event", o.since)
			}
		}
		if o.from.After(now) {
			return usagef(cmd, "%q is in the future: --follow shows the events to come", o.since)
		}
	}
	return nil
}

// kindList lists the kinds of events with their meanings, a line for each.
func kindList() string {
	kinds := events.Kinds()
	b := strings.Builder{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "    %-17s  %s\n", kind, kinds[kind])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// completeKinds offers kinds of events, behind those that stand there already.
func completeKinds(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndex(begun, ",")+1]
	var out []cobra.Completion
	for _, kind := range slices.Sorted(maps.Keys(events.Kinds())) {
		if strings.HasPrefix(before+kind, begun) {
			out = append(out, before+kind)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) events(ctx context.Context, c *client, o eventsOptions) error {
	show := func(m message) error {
		if err := a.event(m); err != nil {
			return err
		}
		return a.out.Flush() // somebody may be watching
	}
	if !o.follow || o.last >= 0 || !o.from.IsZero() {
		kept, last, err := c.kept(ctx, o, a.format != formatJSON)
		if err != nil {
			return err
		}
		for _, m := range kept {
			if err := show(m); err != nil {
				return err
			}
		}
		if !o.follow {
			return nil
		}
		o.after = last
	}
	if err := c.stream(ctx, o.path(true), show); ctx.Err() == nil {
		return err
	}
	return nil // that is how it ends
}

// path returns where the plugin has the events.
func (o *eventsOptions) path(follow bool) string {
	since := ""
	if !o.after.IsZero() {
		since = o.after.String()
	}
	return query(path("events"), "follow", strconv.FormatBool(follow), "kind", o.kind, "pool", o.pool, "since", since)
}

// kept returns of the events that are kept those that the user wants to see, and the ID of the last one of all. For people a grant
// says what has become known of its holder since: the start of a container is one line.
func (c *client) kept(ctx context.Context, o eventsOptions, forPeople bool) (list []message, last events.ID, err error) {
	grants := map[netip.Addr]grant{}
	err = c.stream(ctx, o.path(false), func(m message) error {
		if m.name == "gap" {
			list = append(list, m)
			return nil
		}
		var e events.Event
		if err := json.Unmarshal([]byte(m.data), &e); err != nil {
			return err
		}
		last = e.ID
		switch g, granted := grants[e.Address]; {
		case e.Time.Before(o.from):
			return nil
		case forPeople && granted && e.Kind == events.Described && e.Holder != nil && e.Time.Sub(g.Time) < describedAfter:
			if list[g.at], err = g.describe(e.Holder); err == nil {
				return nil
			}
			return err
		case e.Kind == events.Granted:
			grants[e.Address] = grant{e, len(list)}
		default:
			delete(grants, e.Address)
		}
		list = append(list, m)
		return nil
	})
	if !errors.Is(err, errEnded) {
		return nil, last, err
	}
	if o.last >= 0 {
		list = list[max(len(list)-o.last, 0):]
	}
	return list, last, nil
}

// describedAfter is how long after a grant the engine has listed the container at most.
const describedAfter = time.Minute

// grant is an event that an address was handed out, and where it stands in a list.
type grant struct {
	events.Event
	at int
}

// describe returns the event with what is known of the holder by now.
func (g grant) describe(h *events.Holder) (message, error) {
	data, err := json.Marshal(g.Described(h))
	return message{data: string(data)}, err
}

// event prints one event, or that some are missing.
func (a *app) event(m message) error {
	if a.format == formatJSON {
		_, err := a.out.WriteString(m.data + "\n")
		return err
	}
	if m.name == "gap" {
		var gap admin.Gap
		if err := json.Unmarshal([]byte(m.data), &gap); err != nil {
			return err
		}
		a.view.printf("%s\n", a.view.paint(bold, "… events between "+gap.After.String()+" and "+gap.Before.String()+" are no longer kept"))
		return nil
	}
	var e events.Event
	if err := json.Unmarshal([]byte(m.data), &e); err != nil {
		return err
	}
	head := fmt.Sprintf("%s  %-17s  ", e.Time.UTC().Format("2006-01-02 15:04:05"), e.Kind)
	if a.view.columns == 0 { // in a pipe each is one line
		a.view.printf("%s%s\n", head, safe(e.Text))
		return nil
	}
	a.view.wrap(plain, head, safe(e.Text))
	return nil
}

// message is one server-sent event.
type message struct{ name, data string }

// errEnded is returned when a stream ends at the plugin's end.
var errEnded = errors.New("the plugin has ended, or is restarting, and the stream with it: run the command again")

// stream calls f for each event that is sent, until ctx ends or f fails, or the
// stream does: [errEnded].
func (c *client) stream(ctx context.Context, path string, f func(message) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ringlet"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return c.failure(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body) // what there is
		p := &admin.Problem{}
		if json.Unmarshal(text, p) != nil || p.Code == "" {
			return c.stranger(resp.Status)
		}
		return p
	}
	in := bufio.NewReader(resp.Body)
	var m message
	for {
		line, err := in.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF):
			return errEnded
		case err != nil:
			return c.failure(err)
		}
		switch field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); field {
		case "event":
			m.name = value
		case "data":
			m.data = value
		case "": // the event is complete
			if m.data != "" {
				if err := f(m); err != nil {
					return err
				}
			}
			m = message{}
		}
	}
}
