package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/directory"
)

func (a *app) kvCommand() *cobra.Command {
	kv := &cobra.Command{
		Use:     "kv",
		Short:   "Read the cluster directory, or have keys set again",
		GroupID: groupStatus,
		Long: `Read the cluster directory. In it every host shows which addresses it holds, for
whom, and how to reach it. This host's copy is a few seconds old. The entries of
a host that is gone are removed after 15 minutes. The keys begin with

    ringlet/state/nodes/v1/CLUSTER/NODE
    ringlet/state/ip/v1/CLUSTER/IP
    ringlet/state/services/v1/CLUSTER/PROJECT/SERVICE
    ringlet/state/identities/v1/CLUSTER/id/NUMBER, and …/value/LABELS/NODE
    ringlet/state/pools/v1/CLUSTER/CIDR, and …/names/NAME
    ringlet/locks/CLUSTER/NAME             of a lock that is held
    ringlet/.heartbeat/CLUSTER             renewed each minute
    ringlet/.cluster/CLUSTER               the ID of the cluster

CLUSTER is the value of RINGLET_CLUSTER, "ringlet" by default.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	kv.AddCommand(a.kvGetCommand(), a.kvWatchCommand(), a.kvRemoveCommand())
	return kv
}

func (a *app) kvGetCommand() *cobra.Command {
	recursive := false
	cmd := &cobra.Command{
		Use:        "get [--recursive] KEY",
		SuggestFor: []string{"ls", "list", "show"},

		DisableFlagsInUseLine: true,

		Short: "Show one key, or all keys that begin with it",
		Example: `  ringlet kv get ringlet/state/ip/v1/ringlet/10.50.0.7
  ringlet kv get --recursive ringlet/state/
  ringlet kv get --recursive ringlet/state/nodes/ -o json | jq -r '.[].value.name'`,
		Args:              anyOf("KEY"),
		ValidArgsFunction: a.completeFirst(keyWords),
		RunE: a.do(func(ctx context.Context, c *client, args []string) error {
			if recursive {
				return a.keys(ctx, c, args[0])
			}
			var list []directory.Item
			if err := c.get(ctx, keyPath(args[0]), &list); err != nil {
				return err
			}
			return a.show(list, func() {
				for _, item := range list {
					a.view.value(item.Value)
				}
			})
		}),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "all keys that begin with KEY")
	return cmd
}

func (a *app) kvWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch PREFIX",
		Short: "Show the keys that begin with a prefix, and follow changes",
		Long: `Show the keys that begin with a prefix, then each key that is set or removed,
until interrupted. With -o json each is one line with its event: put, delete,
synced (all present keys were shown) or reset (all keys are shown again).`,
		Example: `  ringlet kv watch ringlet/state/ip/
  ringlet kv watch ringlet/state/nodes/ -o json`,
		Args:              anyOf("PREFIX"),
		ValidArgsFunction: a.completeFirst(keyWords),
		RunE: a.do(func(ctx context.Context, c *client, args []string) error {
			begun := false
			err := c.stream(ctx, query(keyPath(args[0]), "watch", "true"), func(m message) error {
				if err := a.keyEvent(m, begun); err != nil {
					return err
				}
				begun = true
				return a.out.Flush() // somebody is watching
			})
			if ctx.Err() != nil {
				return nil //nolint:nilerr // that is how it ends
			}
			return err
		}),
	}
}

func (a *app) kvRemoveCommand() *cobra.Command {
	recursive := false
	rm := &cobra.Command{
		Use:        "rm [--recursive] KEY",
		SuggestFor: []string{"del", "delete", "remove"},

		DisableFlagsInUseLine: true,

		Short: "Remove keys on all hosts; their hosts set them again",
		Long: `Remove one key, or all keys that begin with it, from the directories of all
hosts. Within 10 seconds each host sets again what it holds. So only keys that
no host stands for stay away. No address, pool or container changes. The keys
of other clusters stay.

The keys of a host that does not answer go when its lease ends, after 15
minutes. Then the exit code is 3.`,
		Example: `  ringlet kv rm ringlet/state/ip/v1/ringlet/10.50.0.7
  ringlet kv rm --recursive ringlet/state/services/`,
		Args:              anyOf("KEY"),
		ValidArgsFunction: a.completeFirst(keyWords),
		RunE: a.do(func(ctx context.Context, c *client, args []string) error {
			at := keyPath(args[0])
			if recursive {
				at = query(at, "recursive", "true")
			}
			var did admin.RemovedKeys
			if err := c.call(ctx, http.MethodDelete, at, nil, &did); err != nil {
				return err
			}
			if err := a.show(did, func() {
				a.view.printf("removed %s; hosts set again what they hold\n", plural(uint64(did.Keys), "key", "keys"))
				for _, name := range did.Silent {
					a.view.printf("%s has not answered: its keys stay until its lease ends\n", safe(name))
				}
			}); err != nil || len(did.Silent) == 0 {
				return err
			}
			return exitError(exitDegraded)
		}),
	}
	rm.Flags().BoolVarP(&recursive, "recursive", "r", false, "all keys that begin with KEY")
	return rm
}

// keyPath is the path of a key, whose slashes are the path's.
func keyPath(key string) string {
	return path(append([]string{"kv"}, strings.Split(strings.TrimPrefix(key, "/"), "/")...)...)
}

// keyPage is how many keys are asked for at a time.
const keyPage = "5000"

// keys shows the keys that begin with a prefix.
func (a *app) keys(ctx context.Context, c *client, prefix string) error {
	all := []directory.Item{}
	for after := ""; ; {
		var page []directory.Item
		if err := c.get(ctx, query(keyPath(prefix), "recursive", "true", "limit", keyPage, "after", after), &page); err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
		after = page[len(page)-1].Key
	}
	return a.show(all, func() {
		if len(all) == 0 {
			a.view.printf("no key begins with %s\n", safe(prefix))
			return
		}
		rows := make([][]string, len(all))
		for i, item := range all {
			rows[i] = []string{item.Key, a.view.ago(item.ConfirmedAt), compact(item.Value)}
		}
		a.view.table([]column{{title: "KEY"}, {title: "CONFIRMED"}, {title: "VALUE", cut: true}}, rows)
	})
}

// compact writes a value in one line.
func compact(value json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, value) != nil {
		return string(value)
	}
	return out.String()
}

// value prints a value over several lines. What others chose in it is escaped,
// as JSON is.
func (v view) value(value json.RawMessage) {
	var out bytes.Buffer
	if json.Indent(&out, value, "", "  ") != nil {
		out.Write(value)
	}
	for line := range strings.Lines(out.String()) {
		v.printf("%s\n", safe(strings.TrimSuffix(line, "\n")))
	}
}

// keyEvent prints one event of keys. Again says that others came before it.
func (a *app) keyEvent(m message, again bool) error {
	var change directory.Change
	if err := json.Unmarshal([]byte(m.data), &change); err != nil {
		return err
	}
	if a.format == formatJSON {
		e := json.NewEncoder(a.out)
		e.SetEscapeHTML(false)
		return e.Encode(keyLine{m.name, change.Key, change.Value, change.Owner})
	}
	switch m.name {
	case "put", "delete":
		a.view.printf("%s\n", strings.TrimSpace(m.name+" "+safe(change.Key)+" "+safe(compact(change.Value))))
	case "reset":
		if again {
			a.view.printf("%s\n", a.view.paint(bold, "… some changes are no longer kept: all keys again"))
		}
	}
	return nil
}

// keyLine is an event of keys in JSON.
type keyLine struct {
	Event string          `json:"event"`
	Key   string          `json:"key,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Owner string          `json:"owner,omitempty"`
}

// keyWords are some keys, as far as one page goes.
func keyWords(ctx context.Context, c *client) ([]cobra.Completion, error) {
	var list []directory.Item
	err := c.get(ctx, query(keyPath(""), "recursive", "true"), &list)
	var out []cobra.Completion
	for _, item := range list {
		out = append(out, word(item.Key, ""))
	}
	return out, err
}
