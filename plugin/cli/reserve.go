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

// reservation is one line of what to reserve or exclude, or to stop reserving.
type reservation struct {
	addresses string // one, a range or a subnet
	text      string // who it is for, or why
}

func (a *app) excludeCommand() *cobra.Command {
	exclude := &cobra.Command{
		Use:        "exclude",
		SuggestFor: []string{"exclusion", "exclusions", "avoid", "blacklist", "skip"},
		Short:      "Exclude addresses from being handed out",
		GroupID:    groupPools,
		Long: `Exclude addresses, so that no container gets them: those of routers, printers
and other devices, or of a DHCP server. It takes effect at once, on all hosts.

An address in use stays in use. It is listed with its holder, and not excluded:
move that container, and exclude the address again.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var pool, note, file string
	var wait bool
	add := &cobra.Command{
		Use:                   "add RANGE... [--note TEXT] [-f FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Exclude addresses, ranges or subnets",
		Long: `Exclude addresses, ranges or subnets, such as 10.50.0.5, 10.50.0.10-10.50.0.19
and 10.50.0.16/28. In a file, write one on each line, with a note after it; #
begins a comment.

If you repeat it, nothing changes, not even the note of an excluded address:
remove that with rm first. If an address is refused, the command stops there;
those before it are excluded. Exit code 3: some addresses are in use. They are
listed.`,
		Example: `  ringlet exclude add 10.50.0.1-10.50.0.19 --note "routers and printers"
  ringlet exclude add 10.50.0.64/26 10.50.0.200
  ringlet exclude add -f excluded.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.reservations(cmd, args, file, note, false)
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				return a.reserve(ctx, c, wanted, pool, false, wait)
			})(cmd, args)
		},
	}
	waitFlag(add, &wait)
	a.poolFlag(add, &pool, "the `pool`, by subnet, name or network\n(default: by the addresses)")
	add.Flags().StringVar(&note, "note", "", "`text` that says why, for people")
	fileFlag(add, &file)
	exclude.AddCommand(add, a.reservationsCommand("exclude", "List excluded addresses", admin.KindExcluded),
		a.unreserveCommand("exclude", "RANGE", "Stop excluding addresses", admin.KindExcluded))
	return exclude
}

func (a *app) reserveCommand() *cobra.Command {
	reserve := &cobra.Command{
		Use:        "reserve",
		SuggestFor: []string{"reservation", "reservations", "static", "pin"},
		Short:      "Reserve an address for one container",
		GroupID:    groupPools,
		Long: `Reserve an address for a container, on any host where it starts. No other
container gets the address, and this one gets it without --ip. It takes effect
at once, on all hosts.

Engines from 29 on send the name of the container. On an older engine, a
container is known by its MAC address, if that is fixed. A holder outside Docker
is known by the name that ringlet alloc --for gives it.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var pool, holder, file string
	var wait bool
	add := &cobra.Command{
		Use:                   "add IP --for NAME [-f FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Reserve an address for a container",
		Long: `Reserve an address for the name or the MAC address of a container, or for the
name of a holder outside Docker. It may have the address already. In a file,
write one address on each line, with the name after it; # begins a comment.

If another holder has the address, ringlet refuses and names it: nothing is
moved. In a file, the command stops at the first line that is refused; the lines
before it are reserved.`,
		Example: `  ringlet reserve add 10.50.0.20 --for db
  ringlet reserve add 10.50.0.21 --for 02:42:0a:32:00:15
  ringlet reserve add -f reserved.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case file == "" && len(args) != 1:
				return usagef(cmd, "%s takes one IP, and got %d arguments", cmd.CommandPath(), len(args))
			case file == "" && holder == "":
				return usagef(cmd, "name the container with --for; to reserve the address for nobody, use ringlet exclude add")
			case file != "" && (holder != "" || len(args) > 0):
				return usagef(cmd, "give either an address and --for, or a file with both")
			}
			wanted, err := a.reservations(cmd, args, file, holder, true)
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				return a.reserve(ctx, c, wanted, pool, true, wait)
			})(cmd, args)
		},
	}
	waitFlag(add, &wait)
	a.poolFlag(add, &pool, "the `pool`, by subnet, name or network\n(default: by the address)")
	a.forFlag(add, &holder, "the `name` or MAC of the container, or the holder", holderWords(isHeld))
	fileFlag(add, &file)
	add.ValidArgsFunction = a.completeFirst(addressWords(isHeld))
	reserve.AddCommand(add, a.reservationsCommand("reserve", "List reserved addresses", admin.KindKept),
		a.unreserveCommand("reserve", "IP", "Stop reserving addresses", admin.KindKept))
	return reserve
}

// fileFlag adds -f.
func fileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "read addresses from a `file`, or - for standard input")
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
			return nil, usagef(cmd, "%v is after %v: write the range the other way round", first, last)
		case named && first != last:
			return nil, usagef(cmd, "only single addresses can be reserved for a name, not %s: exclude the range, or name one address of it", r.addresses)
		case len(r.text) > chronicle.MaxNote:
			return nil, usagef(cmd, "a note or name can have at most %d bytes, not %d", chronicle.MaxNote, len(r.text))
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
			return nil, usagef(cmd, "line %d of %s: write an address and a name, such as 10.50.0.20 db", n, file)
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
func (a *app) reserve(ctx context.Context, c *client, wanted []reservation, pool string, named, wait bool) error {
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
	if failed == nil && wait {
		failed = a.applied(ctx, c)
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
			hints = append(hints, strconv.Quote(r.Note)+" is not a MAC address, and no container can have that name: only ringlet alloc --for can use it")
		}
	}
	var about admin.About
	if !named || c.get(ctx, path("about"), &about) != nil {
		return hints // the addresses are kept
	}
	if n, known := major(about.Engine.Version); known && n < namesEngine {
		hints = append(hints, "engine "+about.Engine.Version+" does not send the names of containers: on this host give the container a fixed MAC, and reserve the address with --for MAC; only ringlet alloc works by name")
	}
	return hints
}

// hints prints notes on what was done, if there are any.
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
			v.wrap(plain, where+": ", "reserved for "+safe(did.Note))
			continue
		}
		what := "excluded"
		if did.First != did.Last {
			what = plural(did.Addresses, "address", "addresses") + " excluded"
		}
		if n := len(did.Collisions); n > 0 {
			what = plural(did.Addresses, "address", "addresses") + " excluded, but not these:"
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
	a.poolFlag(cmd, &pool, "only this `pool`, by subnet, name or network")
	cmd.Flags().BoolVar(&all, "all", false, "also list gateways, auxiliary, network and broadcast\naddresses")
	return cmd
}

// kindText returns how a kind of reservations is called in answers.
func kindText(kind string) string {
	if kind == admin.KindKept {
		return chronicle.KindKeptForName.String()
	}
	return chronicle.KindExcluded.String()
}

// kindWord is what operators call addresses of a kind, as an answer has it.
func kindWord(text string) string {
	if text == chronicle.KindKeptForName.String() {
		return "reserved"
	}
	return text
}

// kindOf is the kind of a reservation as it is listed: what it is for may be a MAC.
func kindOf(r ipam.ReservationStatus) string {
	if r.Kind != chronicle.KindKeptForName.String() {
		return r.Kind
	}
	if mac, err := net.ParseMAC(r.Note); err == nil && len(mac) == len(ipam.MAC{}) {
		return "for a MAC"
	}
	return "for a name"
}

// joined makes one of pieces that follow one another and have the same note: what is
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
		v.printf("nothing is reserved\n")
		return
	case len(list) == 0:
		v.printf("nothing is %s\n", kindWord(kindText(kind)))
		return
	}
	rows := make([][]string, len(list))
	for i, r := range list {
		pool := r.PoolName
		if pool == "" {
			pool = r.Pool.String()
		}
		rows[i] = []string{stretch(r.First.String(), r.Last.String()), amount(r.Addresses), kindOf(r), r.Note, r.Peer, pool}
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
		Long: short + `. Name addresses, ranges or subnets, or give a file as
for ringlet ` + parent + ` add. Other addresses stay as they are. If an address was
not ` + kindWord(kindText(kind)) + `, that is no error.`,
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
	a.poolFlag(cmd, &pool, "the `pool`, by subnet, name or network\n(default: by the addresses)")
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
		at := query(path("reservations"), "addresses", r.addresses, "kind", kind, "pool", pool)
		if failed = c.call(ctx, http.MethodDelete, at, nil, &did); failed != nil {
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
			v.wrap(plain, where+": ", "nothing there was "+kindWord(did.Kind))
			continue
		}
		v.wrap(plain, where+": ", plural(did.Addresses, "address is", "addresses are")+" no longer "+kindWord(did.Kind))
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
