package cli

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) ipCommand() *cobra.Command {
	ip := &cobra.Command{
		Use:     "ip",
		Short:   "List addresses",
		GroupID: groupLook,
		Args:    noSuchCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var pool string
	ls := &cobra.Command{
		Use:   "ls",
		Short: "List the addresses of this peer",
		Long: `List the addresses that are held on this peer, those that it remembers from
before, and those that are reserved.`,
		Example: `  ringlet ip ls
  ringlet ip ls --pool lab -o json | jq -r '.[] | select(.state == "held") | .address'`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			var list []ipam.AddressStatus
			if err := c.get(ctx, addressesOf(pool), &list); err != nil {
				return err
			}
			return a.show(rowsOf(list), func() {
				if len(list) == 0 {
					a.view.printf("no address is held, remembered or reserved\n")
					return
				}
				a.view.addresses(list)
			})
		}),
	}
	poolFlag(ls, &pool)
	ip.AddCommand(ls)
	return ip
}

func (a *app) whoCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "who IP",
		Short:   "Tell who has an address",
		GroupID: groupLook,
		Example: "  ringlet who 10.50.0.7",
		Args:    exactly("IP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ip, err := parseIP(cmd, args[0])
			if err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var s ipam.AddressStatus
				if err := c.get(ctx, path("addresses", ip.String()), &s); err != nil {
					return err
				}
				return a.show(fullOf(s), func() { a.view.address(s) })
			})(cmd, args)
		},
	}
}

// address prints all about one address.
func (v view) address(s ipam.AddressStatus) {
	since := ""
	if !s.Since.IsZero() {
		since = v.ago(s.Since) + " (" + s.Since.UTC().Format(time.RFC3339) + ")"
	}
	v.facts("address", s.Address.String(), "pool", s.Pool.String(), "state", s.State, "since", since, "kind", s.Kind,
		"name", s.Name, "container", s.Container, "mac", s.MAC, "peer", s.Peer)
}

func (a *app) lookupCommand() *cobra.Command {
	var pool, holder string
	cmd := &cobra.Command{
		Use:                   "lookup --for ID",
		DisableFlagsInUseLine: true,
		Short:                 "List what a container or another holder has",
		GroupID:               groupLook,
		Example: `  ringlet lookup --for printer-3
  ringlet lookup --pool lab --for web-1`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if holder == "" {
				return usagef(cmd, "name the holder with --for")
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var list []ipam.AddressStatus
				if err := c.get(ctx, query(addressesOf(pool), "for", holder), &list); err != nil {
					return err
				}
				return a.show(fullsOf(list), func() {
					if len(list) == 0 {
						a.view.printf("%s holds no address on this peer\n", safe(holder))
						return
					}
					a.view.addresses(list)
				})
			})(cmd, args)
		},
	}
	poolFlag(cmd, &pool)
	forFlag(cmd, &holder, "the `holder`, by its name or a container's ID")
	return cmd
}

func (a *app) allocCommand() *cobra.Command {
	var pool, holder, wanted string
	cmd := &cobra.Command{
		Use:                   "alloc --pool P --for ID [--ip IP]",
		DisableFlagsInUseLine: true,
		Short:                 "Take an address for something outside Docker",
		GroupID:               groupChange,
		Long: `Take an address of a pool for a holder outside Docker, and print it. The same
holder gets the same address each time, until it is freed.`,
		Example: `  ringlet alloc --pool lab --for printer-3
  ringlet alloc --pool lab --for router --ip 10.50.0.1`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case pool == "":
				return usagef(cmd, "name the pool with --pool")
			case holder == "":
				return usagef(cmd, "name the holder with --for")
			}
			body := admin.NewAddress{For: holder}
			if wanted != "" {
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
				return a.show(grant, func() { a.view.printf("%v\n", grant.Address) })
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "the `pool` to take it from, by CIDR or name")
	cmd.Flags().StringVar(&wanted, "ip", "", "take this `address` and no other")
	forFlag(cmd, &holder, "the `holder`, by any name of up to 255 bytes")
	return cmd
}

func (a *app) freeCommand() *cobra.Command {
	var holder string
	cmd := &cobra.Command{
		Use:                   "free --for ID [IP]",
		DisableFlagsInUseLine: true,
		Short:                 "Free what a holder outside Docker has",
		GroupID:               groupChange,
		Long: `Free one address of a holder, or all that it has on this peer. Freeing what is
free is no error. The address of a container that lives is refused.`,
		Example: `  ringlet free --for printer-3
  ringlet free --for printer-3 10.50.0.7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case holder == "":
				return usagef(cmd, "name the holder with --for, or free an address whoever has it with ringlet release")
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
	forFlag(cmd, &holder, "the `holder`, by its name or a container's ID")
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "release IP",
		Short:   "Free an address, whoever has it",
		GroupID: groupChange,
		Long: `Free an address whoever holds it on this peer, unless a container that lives has
it. Freeing what is free is no error.`,
		Example: "  ringlet release 10.50.0.7",
		Args:    exactly("IP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ip, err := parseIP(cmd, args[0])
			if err != nil {
				return err
			}
			return a.do(a.free(path("addresses", ip.String()), "", ip.String()))(cmd, args)
		},
	}
}

// free frees what is at the path, of one holder if it is not empty; ip is the
// address, if it is one.
func (a *app) free(path, holderID, ip string) func(ctx context.Context, c *client, args []string) error {
	return func(ctx context.Context, c *client, _ []string) error {
		var freed []ipam.AddressStatus
		if err := c.call(ctx, http.MethodDelete, query(path, "for", holderID), nil, &freed); err != nil {
			return err
		}
		return a.show(fullsOf(freed), func() {
			for _, s := range freed {
				a.view.printf("freed %v, which %s had\n", s.Address, safe(holder(s)))
			}
			switch {
			case len(freed) > 0:
			case ip == "":
				a.view.printf("nothing to free: %s holds no address on this peer\n", safe(holderID))
			case holderID == "":
				a.view.printf("nothing to free: nobody holds %s on this peer\n", ip)
			default:
				a.view.printf("nothing to free: %s does not hold %s on this peer\n", safe(holderID), ip)
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

func forFlag(cmd *cobra.Command, holder *string, usage string) {
	cmd.Flags().StringVar(holder, "for", "", usage)
}

// parseIP reads an address of the command line.
func parseIP(cmd *cobra.Command, s string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, usagef(cmd, "%q is not an address such as 10.50.0.7 or fd00:50::7", s)
	}
	return ip.Unmap(), nil
}
