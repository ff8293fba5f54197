package cli

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand is cobra's, but fails for what there is no help about.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		GroupID: groupTools,
		Example: "  ringlet help pool create",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var words []cobra.Completion
			for _, c := range about.Commands() {
				if c.IsAvailableCommand() {
					words = append(words, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef(cmd.Root(), "there is no command %q to help with", strings.Join(args, " "))
			}
			return about.Help()
		},
	}
}

func (a *app) keygenCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:        "keygen",
		SuggestFor: []string{"key", "keys", "genkey"},
		Short:      "Make a new key for a cluster",
		GroupID:    groupTools,
		Long: `Make a new random key of 32 bytes in base64. All hosts of a cluster have the
same key: make it once. With --out, write it to a new file that only its owner
may read, for RINGLET_KEY_FILE. Without --out, print it; ringlet does not keep
it.`,
		Example: `  ringlet keygen --out cluster.key
  ringlet keygen -o json | jq -r .key`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var random [32]byte
			_, _ = rand.Read(random[:]) // never fails, see its documentation
			key := base64.StdEncoding.EncodeToString(random[:])
			if !cmd.Flags().Changed("out") {
				printed := struct {
					Key string `json:"key"`
				}{key}
				return a.flushed(a.show(printed, func() { a.view.printf("%s\n", key) }))
			}
			if err := writeKey(out, key); err != nil {
				return err
			}
			written := struct {
				File string `json:"file"`
			}{out}
			return a.flushed(a.show(written, func() { a.view.printf("made %s, with a new key\n", safe(out)) }))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the key to this new `file` with mode 0600, not to\nstandard output")
	_ = cmd.RegisterFlagCompletionFunc("out", files) // this flag exists
	return cmd
}

// writeKey writes a key to a file that does not exist yet, for its owner alone, and to the disk: what
// could not be written is removed again.
func writeKey(path, key string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists, and may be the key of a cluster: choose another file, or remove that one", path)
	}
	if err == nil {
		_, err = f.WriteString(key + "\n")
		if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
			_ = os.Remove(path) // err tells more
		}
	}
	if err != nil {
		return fmt.Errorf("no key was made: %w", err)
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		GroupID: groupTools,
		Example: "  ringlet version -o json",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

func (a *app) version() error {
	v := struct {
		Version  string `json:"version"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{a.cfg.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	return a.flushed(a.show(v, func() {
		a.view.printf("ringlet %s, %s, %s\n", v.Version, v.Go, v.Platform)
	}))
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		Short:   "Print a completion script for a shell",
		GroupID: groupTools,
		Example: `  source <(ringlet completion bash)
  ringlet completion fish > ~/.config/fish/completions/ringlet.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      exactly("SHELL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(a.out, true)
			case "zsh":
				err = root.GenZshCompletion(a.out)
			case "fish":
				err = root.GenFishCompletion(a.out, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(a.out)
			default:
				return usagef(cmd, "there is no completion for %q, only for bash, zsh, fish and powershell", args[0])
			}
			if err != nil {
				return fmt.Errorf("the completion script cannot be written: %w", err)
			}
			return a.flushed(nil)
		},
	}
}
