package cli

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/plugin/admin"
)

// reservation is one line of what is to be kept back, or no more.
type reservation struct {
	addresses string // one, a range or a subnet
	text      string // who it is for, or why
}

func (a *app) excludeCommand() *cobra.Command {
	exclude := &cobra.Command{
		Use:        "exclude",
		SuggestFor: []string{"exclusion", "exclusions", "avoid", "blacklist", "skip"},
		Short:      "Keep addresses from being handed out",
		GroupID:    groupChange,
		Long: `Keep addresses from being handed out: those of routers, printers and other devices,
or of a DHCP server. It takes effect at once, on all hosts.

What is in use stays in use. It is told, with who has it, and is not excluded: move
that container, and exclude the address again.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var pool, note, file string
	add := &cobra.Command{
		Use:                   "add RANGE... [--note TEXT] [-f FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Exclude addresses, ranges or subnets",
		Long: `Exclude one or more of 10.50.0.5, 10.50.0.10-10.50.0.19 and 10.50.0.16/28. In a
file stands one on each line, with a note behind it, and # begins a comment.

Repeating it changes nothing, nor the note of what is excluded already: end that
with rm first. Exit code 3 if some of it is in use, which is told. The first that
is refused ends it; what stands before that is excluded.`,
		Example: `  ringlet exclude add 10.50.0.1-10.50.0.19 --note "routers and printers"
  ringlet exclude add 10.50.0.64/26 10.50.0.200
  ringlet exclude add -f excluded.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.reservations(cmd, args, file, note, false)
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.reserve(ctx, c, wanted, pool, false) })(cmd, args)
		},
	}
	a.poolFlag(add, &pool, "the `pool`, by CIDR or name (default: the one that has the addresses)")
	add.Flags().StringVar(&note, "note", "", "`text` that says why, for people")
	fileFlag(add, &file)
	exclude.AddCommand(add, a.reservationsCommand("exclude", "List what is excluded", admin.KindExcluded),
		a.unreserveCommand("exclude", "RANGE", "Exclude addresses no more", admin.KindExcluded))
	return exclude
}

func (a *app) reserveCommand() *cobra.Command {
	reserve := &cobra.Command{
		Use:        "reserve",
		SuggestFor: []string{"reservation", "reservations", "static", "pin"},
		Short:      "Keep an address for one container",
		GroupID:    groupChange,
		Long: `Keep an address for a container, on whatever host it starts. Nobody else gets it,
and the container gets it without --ip. It takes effect at once, on all hosts.

The container is known by its name on engines from 29 on, which send it; on older
ones by its MAC, if that is fixed. What ringlet alloc gives an address is known by
the name after --for.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var pool, holder, file string
	add := &cobra.Command{
		Use:                   "add IP --for NAME [-f FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Keep an address for a container",
		Long: `Keep an address for a container's name, for its MAC, or for what ringlet alloc
knows by that name. It may have the address already. In a file stands one address
on each line, with the name behind it, and # begins a comment.

An address that another holds is refused, with who that is: nothing is moved. Of a
file the first line that is refused ends it; what stands before that is kept.`,
		Example: `  ringlet reserve add 10.50.0.20 --for db
  ringlet reserve add 10.50.0.21 --for 02:42:0a:32:00:15
  ringlet reserve add -f reserved.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case file == "" && len(args) != 1:
				return usagef(cmd, "%s takes one IP, and got %d arguments", cmd.CommandPath(), len(args))
			case file == "" && holder == "":
				return usagef(cmd, "say whom the address is for with --for; ringlet exclude add keeps it from everybody")
			case file != "" && (holder != "" || len(args) > 0):
				return usagef(cmd, "name the address and --for, or a file with both, and not the two at once")
			}
			wanted, err := a.reservations(cmd, args, file, holder, true)
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.reserve(ctx, c, wanted, pool, true) })(cmd, args)
		},
	}
	a.poolFlag(add, &pool, "the `pool`, by CIDR or name (default: the one that has the address)")
	a.forFlag(add, &holder, "the `name` or MAC of the container, or the holder", holderWords(isHeld))
	fileFlag(add, &file)
	add.ValidArgsFunction = a.completeFirst(addressWords(isHeld))
	reserve.AddCommand(add, a.reservationsCommand("reserve", "List what is kept for containers", admin.KindKept),
		a.unreserveCommand("reserve", "IP", "Keep an address for a container no more", admin.KindKept))
	return reserve
}

// fileFlag adds -f.
func fileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "read them from a `file`, or - for standard input")
	_ = cmd.RegisterFlagCompletionFunc("file", files) // the flag exists
}

// reservations reads what is to be kept back from the command line and a file.
// named says that each needs a text.
func (a *app) reservations(cmd *cobra.Command, args []string, file, text string, named bool) ([]reservation, error) {
	var out []reservation
	for _, arg := range args {
		out = append(out, reservation{arg, text})
	}
	if file != "" {
		lines, err := a.readReservations(cmd, file, text, named)
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	switch {
	case len(out) == 0 && file != "":
		return nil, usagef(cmd, "%s has no addresses: write one on each line; # begins a comment", source(file))
	case len(out) == 0:
		return nil, usagef(cmd, "name addresses, or a file with -f")
	}
	for _, r := range out {
		first, last, err := admin.ParseStretch(r.addresses)
		switch {
		case err != nil:
			return nil, usagef(cmd, "%v", err)
		case last.Less(first):
			return nil, usagef(cmd, "%v lies behind %v: write the range the other way round", first, last)
		case named && first != last:
			return nil, usagef(cmd, "one address at a time is kept for a name, and not %s: exclude a range, or name one address of it", r.addresses)
		case len(r.text) > chronicle.MaxNote:
			return nil, usagef(cmd, "a note or name has at most %d bytes, and not %d", chronicle.MaxNote, len(r.text))
		}
	}
	return out, nil
}

// readReservations reads a file with a range on each line, and a text behind
// it.
func (a *app) readReservations(cmd *cobra.Command, file, text string, named bool) ([]reservation, error) {
	in := a.cfg.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("the list cannot be read: %w", err)
		}
		defer f.Close()
		in = f
	}
	var out []reservation
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r := reservation{words[0], strings.Join(words[1:], " ")}
		switch {
		case named && len(words) != 2:
			return nil, usagef(cmd, "line %d of %s: write an address and whom it is for, such as 10.50.0.20 db", n, file)
		case len(words) > 1 && isRangesEnd(words[1:]):
			return nil, usagef(cmd, "line %d of %s: write a range without spaces, such as 10.50.0.10-10.50.0.19", n, file)
		case r.text == "":
			r.text = text
		}
		if _, _, err := admin.ParseStretch(r.addresses); err != nil {
			return nil, usagef(cmd, "line %d of %s: %v", n, file, err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	return out, nil
}

// isRangesEnd reports whether what looks like a note is the end of a range that was
// written with spaces: all but its first address would be left out.
func isRangesEnd(note []string) bool {
	end, dash := strings.CutPrefix(note[0], "-")
	if end == "" && len(note) > 1 {
		end = note[1]
	}
	_, err := netip.ParseAddr(end)
	return dash && err == nil
}

// reserve keeps addresses back, one after the other, and ends at the first that
// is refused: what was done before stays, and repeating it is safe.
func (a *app) reserve(ctx context.Context, c *client, wanted []reservation, pool string, named bool) error {
	var done []ipam.Reserving
	var failed error
	for _, r := range wanted {
		body := admin.NewReservation{Addresses: r.addresses, Pool: pool, Note: r.text}
		if named {
			body.Note, body.For = "", r.text
		}
		var did ipam.Reserving
		if failed = c.call(ctx, http.MethodPost, path("reservations"), body, &did); failed != nil {
			break
		}
		done = append(done, did)
	}
	if len(done) > 0 || failed == nil {
		var hints []string
		if named && a.format == formatTable {
			hints = namesHints(ctx, c, done)
		}
		if err := a.show(done, func() { a.view.reserved(done); a.view.hints(hints) }); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	for _, did := range done {
		if len(did.Collisions) > 0 {
			return exitError(exitDegraded)
		}
	}
	return nil
}

// containerName is what engines take as the name of a container.
var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

// namesHints says what to know of addresses that are kept for names: which of these no
// container can have, as a MAC with a part missing, and whether the engine sends any.
func namesHints(ctx context.Context, c *client, done []ipam.Reserving) []string {
	var hints []string
	named := false
	for _, r := range done {
		switch mac, err := net.ParseMAC(r.Note); {
		case err == nil && len(mac) == len(ipam.MAC{}):
		case containerName.MatchString(r.Note):
			named = true
		default:
			hints = append(hints, strconv.Quote(r.Note)+" is no MAC, and no container can have that name: it is for ringlet alloc alone")
		}
	}
	var about admin.About
	if !named || c.get(ctx, path("about"), &about) != nil {
		return hints // the addresses are kept
	}
	if n, known := major(about.Engine.Version); known && n < namesEngine {
		hints = append(hints, "engine "+about.Engine.Version+" does not send the names of containers: on this host a container gets its address by a fixed MAC, kept with --for MAC, and ringlet alloc by its name")
	}
	return hints
}

// hints prints what is to be known beside what was asked for, if there is anything.
func (v view) hints(texts []string) {
	for _, text := range texts {
		v.wrap(yellow, "note: ", safe(text))
	}
}

// reserved tells what was kept back, and what is in the way of the rest.
func (v view) reserved(done []ipam.Reserving) {
	for _, did := range done {
		where := stretch(did.First.String(), did.Last.String())
		if did.Kind == chronicle.KindKeptForName.String() {
			v.wrap(plain, where+": ", "kept for "+safe(did.Note))
			continue
		}
		what := "excluded"
		if n := len(did.Collisions); n > 0 {
			what = plural(did.Addresses, "address", "addresses") + " kept from everybody, and not these:"
		}
		v.wrap(plain, where+": ", what)
		for _, found := range did.Collisions {
			v.wrap(yellow, "  "+stretch(found.First.String(), found.Last.String())+" ", safe(found.Why))
		}
	}
}

// stretch writes a range, or one address.
func stretch(first, last string) string {
	if first == last {
		return first
	}
	return first + "-" + last
}

// reservationsCommand lists the reservations of one kind.
func (a *app) reservationsCommand(parent, short, kind string) *cobra.Command {
	var pool string
	var all bool
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "show"},
		Short:      short,
		Example:    "  ringlet " + parent + " ls\n  ringlet " + parent + " ls --pool lab -o json",
		Args:       exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			var list []ipam.ReservationStatus
			if err := c.get(ctx, query(path("reservations"), "pool", pool), &list); err != nil {
				return err
			}
			shown := []ipam.ReservationStatus{}
			for _, r := range list {
				if all || r.Kind == kindText(kind) {
					shown = append(shown, r)
				}
			}
			shown = joined(shown)
			return a.show(shown, func() { a.view.reservations(shown, kind, all) })
		}),
	}
	a.poolFlag(cmd, &pool, "only this `pool`, by CIDR or name")
	cmd.Flags().BoolVar(&all, "all", false, "also list everything else that is kept back: gateways, auxiliary, network and broadcast addresses")
	return cmd
}

// kindText returns how a kind of reservations is called in answers.
func kindText(kind string) string {
	if kind == admin.KindKept {
		return chronicle.KindKeptForName.String()
	}
	return chronicle.KindExcluded.String()
}

// joined makes one of pieces that follow one another and are kept back alike: what is
// excluded at once is reserved piece by piece, as its owners gave it up.
func joined(list []ipam.ReservationStatus) []ipam.ReservationStatus {
	out := []ipam.ReservationStatus{}
	for _, r := range list {
		if n := len(out); n > 0 && r.Kind == chronicle.KindExcluded.String() {
			last := &out[n-1]
			if last.Kind == r.Kind && last.Note == r.Note && last.Pool == r.Pool && last.Last.Next() == r.First {
				last.Last = r.Last
				last.Addresses += r.Addresses
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// reservations lists what is kept back, all of it or what is of one kind.
func (v view) reservations(list []ipam.ReservationStatus, kind string, all bool) {
	switch {
	case len(list) == 0 && all:
		v.printf("nothing is kept back\n")
		return
	case len(list) == 0:
		v.printf("nothing is %s\n", kindText(kind))
		return
	}
	rows := make([][]string, len(list))
	for i, r := range list {
		pool := r.PoolName
		if pool == "" {
			pool = r.Pool.String()
		}
		rows[i] = []string{stretch(r.First.String(), r.Last.String()), amount(r.Addresses), r.Kind, r.Note, r.Peer, pool}
	}
	text := "FOR"
	if kind == admin.KindExcluded {
		text = "NOTE"
	}
	v.table([]column{
		{title: "ADDRESSES"},
		{title: "COUNT", right: true, drop: 4},
		{title: "KIND", drop: 3},
		{title: text, cut: true},
		{title: "NOW ON", cut: true, drop: 1},
		{title: "POOL", drop: 2},
	}, rows)
}

// unreserveCommand ends reservations of one kind.
func (a *app) unreserveCommand(parent, arg, short, kind string) *cobra.Command {
	var pool, file string
	cmd := &cobra.Command{
		Use:                   "rm " + arg + "... [-f FILE]",
		DisableFlagsInUseLine: true,
		SuggestFor:            []string{"remove", "delete", "del"},
		Short:                 short,
		Long: short + `: those that are named, one by one or as
ranges or subnets, or in a file, as ringlet ` + parent + ` add takes it. What lies outside
of them stays as it is, and where there is nothing to end that is no error.`,
		Example: "  ringlet " + parent + " rm 10.50.0.20",
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.reservations(cmd, args, file, "", false)
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				return a.unreserve(ctx, c, wanted, kind, pool)
			})(cmd, args)
		},
	}
	a.poolFlag(cmd, &pool, "the `pool`, by CIDR or name (default: the one that has the addresses)")
	fileFlag(cmd, &file)
	cmd.ValidArgsFunction = a.complete(reservationWords(kind))
	return cmd
}

// unreserve ends reservations, as reserve makes them.
func (a *app) unreserve(ctx context.Context, c *client, wanted []reservation, kind, pool string) error {
	var done []ipam.Reserving
	var failed error
	for _, r := range wanted {
		var did ipam.Reserving
		if failed = c.call(ctx, http.MethodDelete, query(path("reservations"), "addresses", r.addresses, "kind", kind, "pool", pool), nil, &did); failed != nil {
			break
		}
		done = append(done, did)
	}
	if len(done) > 0 {
		if err := a.show(done, func() { a.view.unreserved(done) }); err != nil {
			return err
		}
	}
	return failed
}

func (v view) unreserved(done []ipam.Reserving) {
	for _, did := range done {
		where := stretch(did.First.String(), did.Last.String())
		if did.Addresses == 0 {
			v.wrap(plain, where+": ", "nothing there was "+did.Kind)
			continue
		}
		v.wrap(plain, where+": ", plural(did.Addresses, "address is", "addresses are")+" "+did.Kind+" no more")
	}
}

// reservationWords are the reservations of one kind.
func reservationWords(kind string) wordsFunc {
	return func(ctx context.Context, c *client) ([]cobra.Completion, error) {
		var list []ipam.ReservationStatus
		err := c.get(ctx, path("reservations"), &list)
		var out []cobra.Completion
		for _, r := range list {
			if r.Kind == kindText(kind) {
				out = append(out, word(stretch(r.First.String(), r.Last.String()), r.Note))
			}
		}
		return out, err
	}
}
