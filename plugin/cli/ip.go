package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) ipCommand() *cobra.Command {
	ip := &cobra.Command{
		Use:        "ip",
		SuggestFor: []string{"address", "addresses", "addr", "ips"},
		Short:      "List addresses",
		GroupID:    groupAddresses,
		Args:       noSuchCommand,
		RunE:       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var pool string
	var withFreed, all bool
	ls := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "show"},
		Short:      "List addresses that are in use or reserved",
		Long: `List the addresses of this host that no new container gets now: in use by
containers, other holders or the host itself, reserved, or resting because they
were freed a moment ago. Excluded ranges are only in ringlet exclude ls.

With --freed, also list addresses that can be handed out again, with their last
holders. With --all, also list what other hosts report to hold. Their reports
are seconds old, and stay for 15 minutes after a host was last heard from.`,
		Example: `  ringlet ip ls
  ringlet ip ls --pool lab -o json | jq -r '.[] | select(.state == "held") | .address'
  ringlet ip ls --freed
  ringlet ip ls --all`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			var list []ipam.AddressStatus
			if err := c.get(ctx, usesOf(pool, "", all), &list); err != nil {
				return err
			}
			if !withFreed {
				list = slices.DeleteFunc(list, func(s ipam.AddressStatus) bool { return s.State == stateReady })
			}
			return a.show(rowsOf(list), func() {
				if len(list) == 0 {
					a.view.printf("no address is in use or reserved\n")
					return
				}
				a.view.addresses(list)
			})
		}),
	}
	a.poolFlag(ls, &pool, "only this `pool`, by subnet, name or network")
	ls.Flags().BoolVar(&withFreed, "freed", false, "also list freed addresses that can be handed out again")
	ls.Flags().BoolVar(&all, "all", false, "also list what other hosts hold")
	ip.AddCommand(ls)
	return ip
}

func (a *app) whoCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:        "who IP|NAME",
		SuggestFor: []string{"whois", "has"},
		Short:      "Show who holds an address, now or at a past time",
		GroupID:    groupAddresses,
		Long: `Show who holds an address, or who held it last. If another host has the address,
the answer is what that host reported. The identity is the number of the labels
of the container (RINGLET_IDENTITY_LABELS): equal labels have the same number on
all hosts.

The name of a container, or of another holder, stands for its address.

With --at, show who held it at a past time. This host asks the journals of all
hosts, and names those that do not answer within 10 seconds. A journal begins
with the first start of the plugin, and keeps 64 MiB. Exit code 3: no host that
answered knows a holder, and some hosts have not answered.`,
		Example: `  ringlet who 10.50.0.7
  ringlet who web-1
  ringlet who 10.50.0.7 --at "2026-11-20 09:00"
  ringlet who 10.50.0.7 --at 2h`,
		Args: exactly("IP or name"),

		ValidArgsFunction: a.completeFirst(addressWords(func(s ipam.AddressStatus) bool { return s.State != stateReady })),
	}
	cmd.Flags().StringVar(&at, "at", "", "the `time`: \"2026-11-20 09:00\" in this host's time zone,\n09:00 for today, 2h for two hours ago")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		named := isHolderName(args[0])
		if named && at != "" {
			return usagef(cmd, "the journal knows addresses, not names: write --at with an address such as 10.50.0.7")
		}
		ip, err := parseIP(cmd, args[0])
		if err != nil && !named {
			return err
		}
		var when time.Time
		if cmd.Flags().Changed("at") {
			now := a.cfg.Now()
			if when, err = parseTime(cmd, at, now); err != nil {
				return err
			}
			if when.After(now) {
				return usagef(cmd, "%q is in the future, and the journal has only the past", at)
			}
		}
		return a.do(func(ctx context.Context, c *client, _ []string) error {
			switch {
			case !when.IsZero():
				return a.past(ctx, c, ip, when)
			case named:
				return a.whoNamed(ctx, c, args[0])
			}
			return a.whoHas(ctx, c, ip)
		})(cmd, args)
	}
	return cmd
}

// whoNamed shows the address of a container or of another holder.
func (a *app) whoNamed(ctx context.Context, c *client, name string) error {
	has, err := c.addressesOfHolder(ctx, name)
	switch {
	case err != nil:
		return err
	case len(has) > 1 || a.format == formatJSON: // for scripts, a name has a list
		return a.show(fullsOf(has), func() { a.view.addresses(has) })
	}
	return a.whoHas(ctx, c, has[0].Address)
}

// whoHas shows who holds an address.
func (a *app) whoHas(ctx context.Context, c *client, ip netip.Addr) error {
	var s admin.Usage
	if err := c.get(ctx, path("addresses", ip.String()), &s); err != nil {
		return err
	}
	full := fullOf(s.AddressStatus)
	full.Identity = s.Identity
	if !s.ConfirmedAt.IsZero() {
		full.ConfirmedAt = new(s.ConfirmedAt.UTC())
	}
	return a.show(full, func() { a.view.address(s) })
}

// address prints all about one address.
func (v view) address(u admin.Usage) {
	s := u.AddressStatus
	reporter := ""
	if !u.ConfirmedAt.IsZero() {
		reporter = s.Peer + ", confirmed " + v.ago(u.ConfirmedAt)
	}
	since := ""
	if !s.Since.IsZero() {
		since = v.ago(s.Since) + " (" + s.Since.UTC().Format(time.RFC3339) + ")"
	}
	last, name := "", "name"
	switch {
	case freed(s):
		last = "last "
	case s.Kind == chronicle.KindExcluded.String():
		name = "note"
	}
	v.facts("address", s.Address.String(), "pool", s.Pool.String(), "state", s.State, "since", since, last+"kind", s.Kind,
		last+name, s.Name, last+"container", s.Container, last+"mac", s.MAC, "identity", identityText(u.Identity),
		"peer", s.Peer, "reported by", reporter)
}

// addressLike is what can only be meant as an address, or as a MAC.
var addressLike = regexp.MustCompile(`::|^[0-9A-Fa-f.%]*:[0-9A-Fa-f.:%/]*$`)

// isHolderName reports whether somebody wrote a name of a container or another holder where an address may stand, too. A
// holder outside Docker has any name, also one of a letter or of several words.
func isHolderName(s string) bool {
	return strings.ContainsFunc(s, unicode.IsLetter) && !addressLike.MatchString(s)
}

// addressesOfHolder returns what a container or another holder has on any host, at least one address.
func (c *client) addressesOfHolder(ctx context.Context, name string) ([]ipam.AddressStatus, error) {
	var list []ipam.AddressStatus
	if err := c.get(ctx, usesOf("", name, true), &list); err != nil {
		return nil, err
	}
	has := slices.DeleteFunc(slices.Clone(list), func(s ipam.AddressStatus) bool { return !isHeld(s) })
	if len(has) == 0 {
		has = list // freed ones: who had them last
	}
	if len(has) == 0 {
		return nil, fmt.Errorf("%s holds no address, on this host or on others as far as they report", safe(name))
	}
	return has, nil
}

func (a *app) lookupCommand() *cobra.Command {
	var pool, holder string
	var all bool
	cmd := &cobra.Command{
		Use:                   "lookup --for ID [--all]",
		DisableFlagsInUseLine: true,
		Short:                 "List the addresses of a container or other holder",
		GroupID:               groupAddresses,
		Long: `List the addresses that a container or another holder has on this host. With
--all, also list those on other hosts, as they report them. Their reports are
seconds old, and stay for 15 minutes after a host was last heard from.`,
		Example: `  ringlet lookup --for printer-3
  ringlet lookup --pool lab --for web-1
  ringlet lookup --all --for db`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if holder == "" {
				return usagef(cmd, "name the holder with --for")
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var list []ipam.AddressStatus
				if err := c.get(ctx, usesOf(pool, holder, all), &list); err != nil {
					return err
				}
				return a.show(fullsOf(list), func() {
					switch {
					case len(list) > 0:
						a.view.addresses(list)
					case all:
						a.view.printf("%s holds no address on this host, nor on others as far as they report\n", safe(holder))
					default:
						a.view.printf("%s holds no address on this host\n", safe(holder))
						a.view.elsewhere(ctx, c, pool, holder, "")
					}
				})
			})(cmd, args)
		},
	}
	a.poolFlag(cmd, &pool, "only this `pool`, by subnet, name or network")
	a.forFlag(cmd, &holder, "the `holder`, by its name or a container's ID", holderWords(isHeld))
	cmd.Flags().BoolVar(&all, "all", false, "also list what the holder has on other hosts")
	return cmd
}

// usesOf is the path to what is held in a pool, or in all of them, by somebody or anybody: on this
// peer, or on all.
func usesOf(pool, holder string, all bool) string {
	everywhere := ""
	if all {
		everywhere = "true"
	}
	return query(addressesOf(pool), "for", holder, "all", everywhere)
}

// elsewhere tells what other peers say that somebody has who has nothing here, and what to do
// about it.
func (v view) elsewhere(ctx context.Context, c *client, pool, holder, next string) {
	var list []admin.Usage
	if c.get(ctx, usesOf(pool, holder, true), &list) != nil {
		return // of no interest beside what is known here
	}
	for _, u := range list {
		if !u.ConfirmedAt.IsZero() && isHeld(u.AddressStatus) {
			v.printf("%s reports that it has %v there%s\n", safe(u.Peer), u.Address, next)
		}
	}
}

func (a *app) allocCommand() *cobra.Command {
	var pool, holder, wanted string
	cmd := &cobra.Command{
		Use:                   "alloc [--pool P] --for ID [--ip IP]",
		SuggestFor:            []string{"allocate", "claim", "request"},
		DisableFlagsInUseLine: true,
		Short:                 "Allocate an address for a holder outside Docker",
		GroupID:               groupAddresses,
		Long: `Allocate an address of a pool for a holder outside Docker, and print it. On this
host the same holder gets the same address each time, until it is freed. On
another host it gets another one, and --ip gives it one more: a note on standard
error then names the others. Without --pool it is the pool of
RINGLET_DEFAULT_POOL, else the only pool.`,
		Example: `  ringlet alloc --pool lab --for printer-3
  ringlet alloc --for printer-3
  ringlet alloc --pool lab --for router --ip 10.50.0.1`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case pool == "" && cmd.Flags().Changed("pool"): // a script has not set the variable
				return usagef(cmd, "--pool is empty: name the pool, or leave --pool out")
			case holder == "":
				return usagef(cmd, "name the holder with --for")
			case len(holder) > ipam.MaxHolder:
				return usagef(cmd, "the name of the holder has %d bytes: use at most %d", len(holder), ipam.MaxHolder)
			}
			body := admin.NewAddress{For: holder}
			if cmd.Flags().Changed("ip") { // empty is none: a script has not set the variable, and any address would not do
				ip, err := parseIP(cmd, wanted)
				if err != nil {
					return err
				}
				body.Address = ip.String()
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var grant admin.Grant
				if err := c.call(ctx, http.MethodPost, addressesOf(pool), body, &grant); err != nil {
					return err
				}
				c.alsoHolds(ctx, grant, holder)
				return a.show(grant, func() { a.view.printf("%v\n", grant.Address) })
			})(cmd, args)
		},
	}
	a.poolFlag(cmd, &pool, "the `pool` of the address, by subnet, name or network\n(default: RINGLET_DEFAULT_POOL, else the only pool)")
	cmd.Flags().StringVar(&wanted, "ip", "", "allocate this `address` and no other")
	a.forFlag(cmd, &holder, "the `holder`: any name of up to 255 bytes", holderWords(isClients))
	return cmd
}

// alsoHolds notes which other addresses of the pool the holder has, here or on other hosts: few want that.
func (c *client) alsoHolds(ctx context.Context, grant admin.Grant, holder string) {
	var list []admin.Usage
	if c.progress == nil || c.get(ctx, usesOf(grant.Pool.String(), holder, true), &list) != nil {
		return // the address was allocated all the same
	}
	for _, u := range list {
		if u.Address != grant.Address && isHeld(u.AddressStatus) {
			_, _ = fmt.Fprintf(c.progress, "note: %s also holds %v on %s\n", safe(holder), u.Address, safe(u.Peer))
		}
	}
}

func (a *app) freeCommand() *cobra.Command {
	var holder string
	cmd := &cobra.Command{
		Use:                   "free --for ID [IP]",
		DisableFlagsInUseLine: true,
		Short:                 "Free the addresses of a holder outside Docker",
		GroupID:               groupAddresses,
		Long: `Free one address of a holder, or all that it has on this host. If the address is
free already, that is no error. A running container of that name keeps its
address: ringlet refuses the command, unless there is something else to free.`,
		Example: `  ringlet free --for printer-3
  ringlet free --for printer-3 10.50.0.7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case holder == "":
				return usagef(cmd, "name the holder with --for, or free an address of any holder with ringlet release")
			case len(args) == 0:
				return a.do(a.free(path("addresses"), holder, ""))(cmd, args)
			case len(args) > 1:
				return usagef(cmd, "%s takes one IP at most, and got %d arguments", cmd.CommandPath(), len(args))
			}
			ip, err := parseIP(cmd, args[0])
			if err != nil {
				return err
			}
			return a.do(a.free(path("addresses", ip.String()), holder, ip.String()))(cmd, args)
		},
	}
	a.forFlag(cmd, &holder, "the `holder`, by its name or a container's ID", holderWords(isClients))
	cmd.ValidArgsFunction = a.completeFirst(addressWords(func(s ipam.AddressStatus) bool {
		return isHeld(s) && (holder == "" || s.Name == holder || s.Container == holder)
	}))
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release IP[-IP]",
		Short: "Free one address, or those set aside in a range",

		ValidArgsFunction: a.completeFirst(addressWords(func(s ipam.AddressStatus) bool { return isHeld(s) || s.State == stateStranger })),
		GroupID:           groupAddresses,
		Long: `Free an address of this host, whatever holds it. If a running container holds
it, ringlet refuses. If the address is free already, that is no error.

Of a range, ringlet frees what is set aside for other devices (probe=arp), and
nothing else.`,
		Example: "  ringlet release 10.50.0.7\n  ringlet release 10.50.0.1-10.50.0.99",
		Args:    exactly("IP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if one, other, isRange := strings.Cut(args[0], "-"); isRange {
				first, err := parseIP(cmd, one)
				if err != nil {
					return err
				}
				last, err := parseIP(cmd, other)
				if err != nil {
					return err
				}
				return a.do(a.freeAside(first, last))(cmd, args)
			}
			ip, err := parseIP(cmd, args[0])
			if err != nil {
				return err
			}
			return a.do(a.free(path("addresses", ip.String()), "", ip.String()))(cmd, args)
		},
	}
}

// freeAside frees what is set aside for other devices from one address to another.
func (a *app) freeAside(first, last netip.Addr) func(ctx context.Context, c *client, args []string) error {
	return func(ctx context.Context, c *client, _ []string) error {
		var all []ipam.AddressStatus
		if err := c.get(ctx, path("addresses"), &all); err != nil {
			return err
		}
		freed := []ipam.AddressStatus{}
		for _, s := range all {
			if s.State != stateStranger || s.Address.Compare(first) < 0 || s.Address.Compare(last) > 0 {
				continue
			}
			var one []ipam.AddressStatus
			if err := c.call(ctx, http.MethodDelete, path("addresses", s.Address.String()), nil, &one); err != nil {
				return err
			}
			freed = append(freed, one...)
		}
		return a.show(fullsOf(freed), func() {
			for _, s := range freed {
				a.view.printf("freed %v, which %s held\n", s.Address, safe(somebody(s)))
			}
			if len(freed) == 0 {
				a.view.printf("nothing to free: no address from %v to %v is set aside on this host\n", first, last)
			}
		})
	}
}

// free frees what is at the path, of one holder if it is not empty; ip is the
// address, if it is one.
func (a *app) free(at, holderID, ip string) func(ctx context.Context, c *client, args []string) error {
	return func(ctx context.Context, c *client, _ []string) error {
		var freed []ipam.AddressStatus
		if err := c.call(ctx, http.MethodDelete, query(at, "for", holderID), nil, &freed); err != nil {
			return err
		}
		var now admin.Usage // of what nobody here holds
		nowhere := ""
		if len(freed) == 0 && ip != "" {
			if p, ok := errors.AsType[*admin.Problem](c.get(ctx, path("addresses", ip), &now)); ok && p.Code == ipam.ErrPoolNotFound.Error() {
				nowhere = p.Detail
			}
		}
		return a.show(fullsOf(freed), func() {
			for _, s := range freed {
				a.view.printf("freed %v, which %s held\n", s.Address, safe(somebody(s)))
			}
			switch {
			case len(freed) > 0:
			case nowhere != "":
				a.view.wrap(plain, "nothing to free: ", safe(nowhere))
			case ip == "":
				a.view.printf("nothing to free: %s holds no address on this host\n", safe(holderID))
				a.view.elsewhere(ctx, c, "", holderID, ": free it there")
			case holderID == "":
				a.view.printf("nothing to free: %s is not in use on this host\n", ip)
			default:
				a.view.printf("nothing to free: %s does not hold %s on this host\n", safe(holderID), ip)
			}
			if !now.ConfirmedAt.IsZero() && isHeld(now.AddressStatus) {
				a.view.printf("%s reports that %s has it: free it there\n", safe(now.Peer), safe(somebody(now.AddressStatus)))
			}
		})
	}
}

// addressesOf returns the path of a pool's addresses, of all if it is empty.
func addressesOf(pool string) string {
	if pool == "" {
		return path("addresses")
	}
	return path("pools", pool, "addresses")
}

// forFlag adds --for, with the words to complete it with.
func (a *app) forFlag(cmd *cobra.Command, holder *string, usage string, words wordsFunc) {
	cmd.Flags().StringVar(holder, "for", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("for", a.complete(words)) // the flag exists
}

// parseIP reads an address of the command line.
func parseIP(cmd *cobra.Command, s string) (netip.Addr, error) {
	ip, ok := parse.Addr(s)
	if !ok {
		return netip.Addr{}, usagef(cmd, "%q is not an address such as 10.50.0.7 or fd00:50::7", s)
	}
	return ip, nil
}
