package dockerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/ringlet/ringlet/internal/parse"
)

// Defaults of [Config].
const (
	DefaultInterval = time.Minute
	DefaultTimeout  = 10 * time.Second
	DefaultDebounce = 200 * time.Millisecond
	DefaultRetryMin = 250 * time.Millisecond
	DefaultRetryMax = 5 * time.Second
)

// Config says which engine to watch and how to recognise our networks in it.
type Config struct {
	// Socket is the absolute path of the engine's unix socket, at most 107
	// bytes. It need not exist yet, and may be replaced at any time; inside a
	// plugin it therefore lies in a mounted directory. Empty: there is no
	// engine to ask, and Run only waits for its end.
	Socket string

	// Plugin is the ID of the managed plugin this process runs in, as found by
	// [PluginID]. The engine is then asked for the plugin's name, which is the
	// IPAM driver name that networks carry. Empty outside a managed plugin.
	Plugin string

	// Names are IPAM driver names that are ours whatever the engine says:
	// exact, with tag if they have one. Needed where Plugin is empty.
	Names []string

	// Labels are the names of the labels of containers that [Watcher.Containers] is to return, or prefixes of such names with
	// a * at the end.
	Labels []string

	// Interval is the longest time between two looks. Default [DefaultInterval].
	Interval time.Duration

	// Timeout is the deadline of each single call. Default [DefaultTimeout].
	Timeout time.Duration

	// Debounce is how long a look waits after the first hint, for the rest of
	// its kind to be covered by it as well. Default [DefaultDebounce].
	Debounce time.Duration

	// RetryMin and RetryMax bound the pause after a failure, which doubles
	// from the one to the other and is jittered. Defaults [DefaultRetryMin]
	// and [DefaultRetryMax].
	RetryMin, RetryMax time.Duration

	// Rand jitters the pauses; it is used by Run alone. Nil means one with a
	// random seed.
	Rand *rand.Rand

	// Logger receives changes of the connection and of the inventory. Nil
	// discards them.
	Logger *slog.Logger

	// dial replaces the connection to Socket in tests.
	dial func(ctx context.Context) (net.Conn, error)
}

// withDefaults returns a copy in which every field has a value.
func (c Config) withDefaults() Config {
	c.Names = slices.Clone(c.Names)
	c.Labels = slices.Clone(c.Labels)
	c.Interval = defaultTo(c.Interval, DefaultInterval)
	c.Timeout = defaultTo(c.Timeout, DefaultTimeout)
	c.Debounce = defaultTo(c.Debounce, DefaultDebounce)
	c.RetryMin = defaultTo(c.RetryMin, DefaultRetryMin)
	c.RetryMax = defaultTo(c.RetryMax, max(DefaultRetryMax, c.RetryMin))
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.dial == nil {
		c.dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", c.Socket)
		}
	}
	return c
}

func defaultTo(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// validate reports everything that is wrong with a config that has its
// defaults.
func (c Config) validate() error {
	var errs []error
	if c.Socket != "" {
		if !filepath.IsAbs(c.Socket) {
			errs = append(errs, fmt.Errorf("docker socket %q is not an absolute path: give the path of a unix socket, without a scheme", c.Socket))
		}
		if len(c.Socket) > parse.MaxSocketPath {
			errs = append(errs, fmt.Errorf("docker socket %q has %d bytes, but a socket path has at most %d", c.Socket, len(c.Socket), parse.MaxSocketPath))
		}
		if c.Plugin == "" && len(c.Names) == 0 {
			errs = append(errs, errors.New("neither a plugin id nor a driver name is known, so no network could be recognised as ours: give one of them"))
		}
	}
	if slices.Contains(c.Names, "") {
		errs = append(errs, errors.New("an ipam driver name is empty"))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"interval", c.Interval},
		{"timeout", c.Timeout},
		{"debounce", c.Debounce},
		{"shortest retry pause", c.RetryMin},
		{"longest retry pause", c.RetryMax},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %v is negative", d.name, d.value))
		}
	}
	if c.RetryMax < c.RetryMin {
		errs = append(errs, fmt.Errorf("longest retry pause %v is below the shortest, %v", c.RetryMax, c.RetryMin))
	}
	return errors.Join(errs...)
}
