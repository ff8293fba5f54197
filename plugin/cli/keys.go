package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) keysCommand() *cobra.Command {
	keys := &cobra.Command{
		Use:     "keys",
		Short:   "List the keys of the cluster, or replace them",
		GroupID: groupTools,
		Long: `List the keys of the cluster that this host has, or replace them without a
pause. A key is shown only by its fingerprint, the beginning of a hash. The
first key encrypts; all of them decrypt.

Keys in a file (RINGLET_KEY_FILE) can change while the plugin runs: it reads the
file every 10 seconds. To change keys in RINGLET_KEY, disable the plugin, set
the new value, and enable it.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	keys.AddCommand(&cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "show"},
		Short:      "List the keys of this host by fingerprint",
		Example:    "  ringlet keys ls\n  ringlet keys ls -o json | jq -r '.keys[].fingerprint'",
		Args:       exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			var k admin.Keys
			if err := c.get(ctx, path("keys"), &k); err != nil {
				return err
			}
			return a.show(k, func() { a.view.keys(k) })
		}),
	}, a.rotateCommand())
	return keys
}

func (v view) keys(k admin.Keys) {
	if len(k.Keys) == 0 {
		v.wrap(plain, "no keys: ", "this host talks to no other host, or without encryption")
		return
	}
	rows := make([][]string, len(k.Keys))
	for i, key := range k.Keys {
		use := "decrypts"
		if key.Encrypts {
			use = "encrypts and decrypts"
		}
		rows[i] = []string{key.Fingerprint, use}
	}
	v.table([]column{{title: "FINGERPRINT"}, {title: "USE"}}, rows)
	if k.Source == "file" {
		v.wrap(grey, "in ", safe(k.File)+" of the plugin; the file can change while the plugin runs")
	} else {
		v.wrap(grey, "in ", "RINGLET_KEY; to change it use docker plugin disable, set and enable, or outside Docker a restart")
	}
}

func (a *app) rotateCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "rotate [add|use|drop KEY]",
		DisableFlagsInUseLine: true,
		SuggestFor:            []string{"change", "replace", "roll"},
		Short:                 "Replace the key of the cluster, in three steps on all hosts",
		Long: `Replace the key of the cluster without a pause. Do each step on all hosts before
the next one: hosts that have no key in common do not understand each other.

  1. ringlet keys rotate add KEY    the new key decrypts, too
  2. ringlet keys rotate use KEY    the new key encrypts; the old one decrypts
  3. ringlet keys rotate drop KEY   all other keys are removed

KEY is what ringlet keygen printed once, the same on all hosts. Write - to read
it from standard input, so that it is in no shell history. Wait 10 seconds after
each step, and check with ringlet keys ls that all hosts have the same keys.

If you repeat a step, nothing changes. A step that comes too early is refused,
as far as this host can know. Without arguments, the command shows the next
step.`,
		Example: `  ringlet keys rotate
  ringlet keys rotate add - < new.key
  ringlet keys rotate use - < new.key
  ringlet keys rotate drop - < new.key`,
		ValidArgs: []string{admin.KeyAdd, admin.KeyUse, admin.KeyDrop},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.do(a.nextKeyStep)(cmd, args)
			}
			if len(args) != 2 || args[0] != admin.KeyAdd && args[0] != admin.KeyUse && args[0] != admin.KeyDrop {
				return usagef(cmd, "give add, use or drop, and the key, or - for standard input")
			}
			key := args[1]
			if key == "-" {
				line, _ := bufio.NewReader(a.cfg.In).ReadString('\n')
				if key = strings.TrimSpace(line); key == "" {
					return fmt.Errorf("there is no key on standard input: ringlet keygen prints one")
				}
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var k admin.Keys
				if err := c.call(ctx, http.MethodPost, path("keys"), admin.KeyChange{Step: args[0], Key: key}, &k); err != nil {
					return err
				}
				return a.show(k, func() { a.view.rotated(args[0], k) })
			})(cmd, args)
		},
	}
}

// nextKeyStep tells how far this host is with a change of keys.
func (a *app) nextKeyStep(ctx context.Context, c *client, _ []string) error {
	var k admin.Keys
	if err := c.get(ctx, path("keys"), &k); err != nil {
		return err
	}
	return a.show(k, func() {
		a.view.keys(k)
		a.view.wrap(plain, "next: ", nextStep(k))
	})
}

// nextStep says what comes next on a host with these keys. Those of a setting cannot
// be changed by a command.
func nextStep(k admin.Keys) string {
	inFile := k.Source == "file"
	switch {
	case len(k.Keys) == 0:
		return "make a key with ringlet keygen --out FILE, bring the file to every host, and set RINGLET_KEY_FILE there"
	case len(k.Keys) == 1 && inFile:
		return "to replace it, make a key with ringlet keygen, and run ringlet keys rotate add with it on every host"
	case len(k.Keys) == 1:
		return "to replace it, make a key with ringlet keygen, and add it to RINGLET_KEY on every host, after the present key and a comma"
	case inFile:
		return "once all hosts have the same keys, run ringlet keys rotate use with the new one on every host; once all encrypt with it, run ringlet keys rotate drop with it on every host"
	}
	return "once all hosts have the same keys, put the new one first in RINGLET_KEY on every host; once all encrypt with it, leave only that one"
}

// rotated tells what follows a step.
func (v view) rotated(step string, k admin.Keys) {
	v.keys(k)
	switch step {
	case admin.KeyAdd:
		v.wrap(plain, "next: ", "do the same on every other host; 10 seconds after the last one, run ringlet keys rotate use with that key on every host")
	case admin.KeyUse:
		v.wrap(plain, "next: ", "do the same on every other host; 10 seconds after the last one, run ringlet keys rotate drop with that key on every host")
	default:
		v.wrap(plain, "next: ", "do the same on every other host; give the new key by hand to a host that is off now")
	}
}
