package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of the program.
const (
	exitFine     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitDegraded = 3
)

// exitError is an outcome that the output has told already.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a command line that makes no sense.
type usageError struct{ text string }

// Error implements error.
func (e *usageError) Error() string { return e.text }

// usagef returns a usage error of a command, with the way to its help.
func usagef(c *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...) + "; see " + c.CommandPath() + " --help"}
}

// flagError says what is wrong with a flag, in words that need no knowledge of Go.
func flagError(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && bad.GetFlag().Value.Type() == "bool" {
		return usagef(c, "--%s is true or false, not %q", bad.GetFlag().Name, bad.GetValue())
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && bad.GetFlag().Value.Type() == "int" {
		return usagef(c, "--%s is a number, not %q", bad.GetFlag().Name, bad.GetValue())
	}
	return usagef(c, "%v", err)
}

// ExitCode returns the exit code for the error of a command, 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return exitFine
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return int(e)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// errorText returns what to tell about the error, nothing if it was told.
func errorText(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[exitError](err); ok {
		return ""
	}
	if e, ok := errors.AsType[*uncertainError](err); ok {
		return e.Error()
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return "interrupted"
	}
	return err.Error()
}

// noSuchCommand refuses the arguments of a command that only has others below
// it.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", c.CommandPath()+" "+args[0])
	if near := suggestions(c, args[0]); len(near) > 0 {
		text += ", did you mean " + strings.Join(near, " or ")
	}
	return usagef(c, "%s", text)
}

// suggestions returns the commands that may be meant by a word that is none of
// those of c: the nearest of c's, or else what the root has by that very name,
// since ringlet who is easily sought below ringlet ip.
func suggestions(c *cobra.Command, word string) []string {
	c.SuggestionsMinimumDistance = 2
	var near []string
	for _, name := range c.SuggestionsFor(word) { // some of them twice
		if path := c.CommandPath() + " " + name; !slices.Contains(near, path) {
			near = append(near, path)
		}
	}
	if len(near) == 0 && c.HasParent() {
		for _, other := range c.Root().Commands() {
			if other.Name() == word {
				return []string{other.CommandPath()}
			}
		}
	}
	return near
}

// exactly wants one argument for each name, none of them empty, as of a variable that
// a script has not set.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if i := slices.Index(args, ""); i >= 0 && i < len(names) {
			return usagef(c, "%s is empty", names[i])
		}
		return anyOf(names...)(c, args)
	}
}

// anyOf wants one argument for each name.
func anyOf(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(names) == 0 {
			return usagef(c, "%s takes no argument, and got %q%s", c.CommandPath(), args[0], flagFor(c, args[0]))
		}
		return usagef(c, "%s takes %s, and got %d arguments", c.CommandPath(), strings.Join(names, " "), len(args))
	}
}

// plainWord is what can be typed and shown as it is.
var plainWord = regexp.MustCompile(`^[\w.:/][\w.:/-]*$`)

// flagFor says which flag whoever gave an argument to a command that takes none may have meant.
func flagFor(c *cobra.Command, arg string) string {
	if !plainWord.MatchString(arg) {
		return ""
	}
	free := func(flag string) bool { return c.Flags().Lookup(flag) != nil && !c.Flags().Changed(flag) }
	_, err := netip.ParseAddr(arg)
	switch {
	case err == nil && free("ip"):
		return ": write --ip " + arg
	case err == nil && (free("for") || free("pool")):
		return ": ringlet who " + arg + " shows who has an address"
	case err == nil:
	case free("for"):
		return ": write --for " + arg
	case free("pool"):
		return ": write --pool " + arg
	}
	return ""
}
