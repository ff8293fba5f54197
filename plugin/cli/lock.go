package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/plugin/admin"
)

// Times of a lock. The cluster ends the lock of a host that was silent for 25 s, so the command must have ended by then.
const (
	renewEvery  = 5 * time.Second
	renewWithin = 4 * time.Second        // an answer comes, or counts as none
	askAgain    = 500 * time.Millisecond // while somebody else has the lock
	lookOften   = 200 * time.Millisecond // whether the time is over, as behind a thaw
	endAfter    = 20 * time.Second       // since the lock was last known to stand, the command is told to end
	killAfter   = 23 * time.Second       // and it is killed
)

func (a *app) lockCommand() *cobra.Command {
	wait := time.Duration(0)
	cmd := &cobra.Command{
		Use:     "lock NAME -- COMMAND...",
		Short:   "Run a command while this host holds a lock",
		GroupID: groupTools,
		Long: `Run a command while this host holds the lock NAME of the cluster. No other
command holds it at the same time. If another one does, the command is not run,
unless --wait says for how long to wait.

The command finds the fence of its lock in RINGLET_FENCE. This number rises with
every holder. Let what the command writes to remember the highest fence, and
refuse lower ones: a host that was frozen may write late.

If this host reaches no majority of the cluster for 20 seconds, or was frozen
for as long, it ends the command: first by SIGTERM, after 3 seconds by SIGKILL.

The exit code is that of the command; 1 if the lock is held, or was lost.`,
		Example: `  ringlet lock backup -- restic backup /srv
  ringlet lock --wait 10m report -- ./report.sh`,
		Args: func(c *cobra.Command, args []string) error {
			switch dash := c.ArgsLenAtDash(); {
			case dash < 0 || dash == len(args):
				return usagef(c, "%s takes the command behind two dashes, as in: %s backup -- restic backup /srv", c.CommandPath(), c.CommandPath())
			case dash != 1:
				return usagef(c, "%s takes the name of one lock, and got %d", c.CommandPath(), dash)
			case lock.CheckName(args[0]) != nil:
				return usagef(c, "%v", lock.CheckName(args[0]))
			case wait < 0:
				return usagef(c, "--wait is a time of 0 or more, not %v", wait)
			}
			return nil
		},
		RunE: a.do(func(ctx context.Context, c *client, args []string) error {
			return a.lock(ctx, c, args[0], args[1:], wait)
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait at most this `time` while the lock is held, as 30s or 10m")
	return cmd
}

// lock takes a lock, runs a command, and ends the lock.
func (a *app) lock(ctx context.Context, c *client, name string, argv []string, wait time.Duration) error {
	c.progress = nil // the output is the command's
	l, asked, err := takeLock(ctx, c, name, argv, wait)
	if err != nil {
		return err
	}
	h := &heldLock{client: c, HeldLock: l, errs: a.cfg.Err, stood: asked}
	job, err := startJob(argv, append(os.Environ(), "RINGLET_FENCE="+strconv.FormatUint(l.Fence, 10)))
	if err == nil {
		err = h.guard(ctx, job)
	}
	if _, lost := errors.AsType[*lostLockError](err); !lost {
		h.release()
	}
	return err
}

// takeLock takes a lock. It returns when the request left that got it: the lock stands since then.
func takeLock(ctx context.Context, c *client, name string, argv []string, wait time.Duration) (
	l admin.HeldLock, asked time.Duration, err error,
) {
	body := admin.NewLock{Holder: holderOf(argv), Token: rand.Text()}
	for end := bootTime() + wait; ; {
		asked = bootTime()
		err = c.call(ctx, http.MethodPost, path("locks", name), body, &l)
		p, refused := errors.AsType[*admin.Problem](err)
		if err == nil || !refused || p.Code != ipam.ErrLocked.Error() || bootTime() >= end {
			return l, asked, err
		}
		select {
		case <-ctx.Done():
			return l, asked, ctx.Err()
		case <-time.After(askAgain):
		}
	}
}

// holderOf names a command for people.
func holderOf(argv []string) string {
	text := strings.ToValidUTF8(strings.Join(append([]string{filepath.Base(argv[0])}, argv[1:]...), " "), "?")
	for len(text) > lock.MaxHolder {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// heldLock is a lock while its command runs.
type heldLock struct {
	*client
	admin.HeldLock
	errs  io.Writer
	stood time.Duration // when it was last known to stand, by the clock that runs while the host sleeps
}

// lostLockError says why a command was ended before it was done.
type lostLockError struct{ text string }

// Error returns the sentence.
func (e *lostLockError) Error() string { return e.text + ": the command was ended" }

// guard renews the lock until the command ends, and ends the command if that is in vain.
func (h *heldLock) guard(ctx context.Context, job *job) error {
	renewed := make(chan error, 1)
	asked, asks := h.stood, false
	look := time.NewTicker(lookOften)
	defer look.Stop()
	var lost error
	lose := func(format string, args ...any) {
		if lost == nil {
			lost = &lostLockError{fmt.Sprintf(format, args...)}
		}
	}
	for {
		now := bootTime()
		if now-h.stood >= endAfter {
			lose("this host could not renew the lock %s for %v, because it reached no majority of the cluster, or was frozen", h.Name, (now - h.stood).Round(time.Second))
		}
		if lost != nil || ctx.Err() != nil {
			job.end(lost != nil && now-h.stood >= killAfter)
		}
		if !asks && lost == nil && now-asked >= renewEvery {
			asked, asks = now, true
			go func() { renewed <- h.renew(ctx) }()
		}
		select {
		case err := <-job.done:
			if lost != nil {
				return lost
			}
			return err
		case err := <-renewed:
			asks = false
			if p, refused := errors.AsType[*admin.Problem](err); refused && p.Code == admin.CodeLockLost {
				lose("the lock %s has ended, because this host was silent for too long", h.Name)
				h.stood = min(h.stood, bootTime()-endAfter) // it is killed 3 s later
			} else if err == nil && lost == nil {
				h.stood = asked
			}
		case <-look.C:
		}
	}
}

// renew has the lock stay.
func (h *heldLock) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewWithin)
	defer cancel()
	return h.call(ctx, http.MethodPut, path("locks", h.Name), admin.Renewal{Fence: h.Fence}, nil)
}

// release ends the lock. If that fails, its host ends it when the lease is over.
func (h *heldLock) release() {
	ctx, cancel := context.WithTimeout(context.Background(), renewWithin)
	defer cancel()
	if err := h.call(ctx, http.MethodDelete, query(path("locks", h.Name), "fence", strconv.FormatUint(h.Fence, 10)), nil, nil); err != nil {
		fmt.Fprintf(h.errs, "ringlet: the lock %s was not ended, so it ends by itself in about half a minute\n", h.Name)
	}
}
