// Command demo is the program of the container image that make run and the tests with real engines use. The image holds
// this one static file, so that it can be made without a registry.
//
// It shows a container's side of addressing and nothing else: it tells which addresses the container has, and whether
// another one is reached.
//
//	demo [serve]                     print addresses and routes, then wait for SIGTERM or SIGINT
//	demo addrs                       print the addresses and routes as JSON
//	demo ping ADDR [-c N] [-t LIMIT] send N echo requests (3), wait LIMIT (1s) for each answer; 0 when one came
//	demo watch ADDR [-e EVERY]       send an echo request every EVERY (20ms), print when each answer came, until SIGTERM
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = "usage: demo [serve] | addrs | ping ADDR [-c N] [-t LIMIT] | watch ADDR [-e EVERY]"

// errUsage is returned when the command line makes no sense.
var errUsage = errors.New(usage)

func main() {
	// As the first process of a container it gets no default action for signals: without this, a stop takes the engine's
	// 10 s and a SIGKILL.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	command := "serve"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return serve(ctx, out)
	case "addrs":
		v, err := look()
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(v)
	case "ping":
		return pingCommand(ctx, args, out)
	case "watch":
		return watchCommand(ctx, args, out)
	default:
		return errUsage
	}
}

// serve prints what the container has and waits for the end of ctx.
func serve(ctx context.Context, out io.Writer) error {
	v, err := look()
	if err != nil {
		return err
	}
	for _, a := range v.Addresses {
		fmt.Fprintf(out, "%-8s %s  %s\n", a.Interface, a.Address, a.MAC)
	}
	for _, r := range v.Routes {
		fmt.Fprintf(out, "%-8s %s via %s\n", r.Interface, r.To, r.Via)
	}
	<-ctx.Done()
	return nil
}

func pingCommand(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("ping", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	count := flags.Int("c", 3, "number of requests")
	limit := flags.Duration("t", time.Second, "wait for each answer")
	to, err := parse(flags, args)
	if err != nil {
		return err
	}
	if *count < 1 || *limit <= 0 {
		return errUsage
	}
	return ping(ctx, to, *count, *limit, out)
}

func watchCommand(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	every := flags.Duration("e", 20*time.Millisecond, "between requests")
	to, err := parse(flags, args)
	if err != nil {
		return err
	}
	if *every <= 0 {
		return errUsage
	}
	return watch(ctx, to, *every, out)
}

// parse reads an address and the flags behind it.
func parse(flags *flag.FlagSet, args []string) (netip.Addr, error) {
	if len(args) == 0 {
		return netip.Addr{}, errUsage
	}
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return netip.Addr{}, errUsage
	}
	return to, nil
}
