package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ringlet/ringlet/ipam"
)

// Failures that begin between the engine and us; after each of them the two
// may disagree on what is in use.
var (
	// errNoBody is returned when a request lacks the body that it must have:
	// the engine repeats it after its connection broke.
	errNoBody = errors.New("the ringlet plugin was restarted during this request: run the command again")
	// errCutOff is returned when a body breaks off.
	errCutOff = errors.New("the request to the ringlet plugin broke off: run the command again")
	// errGone is returned when the engine has gone away.
	errGone = errors.New("the engine did not wait for the answer")
)

// errStopping is answered to requests that still wait when the process has to
// end.
var errStopping = &ipam.Error{Kind: ipam.ErrStopped, Text: "ringlet is stopping: run the command again once it is back"}

// panicked is the error of a function that panicked.
type panicked struct {
	value any
	stack []byte
}

// Error returns what was panicked with.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// badRequest returns the error of a request that makes no sense by itself.
func badRequest(text string) error { return &ipam.Error{Kind: ipam.ErrBadRequest, Text: text} }

// errBody returns the error of a body that cannot be read.
func errBody(why string) error {
	return badRequest("the engine's request cannot be read: " + clip(why))
}

// Results of calls, beside the codes of [ipam.Code].
const (
	resultOK          = "ok"
	resultNoBody      = "no-body"
	resultCutOff      = "cut-off"
	resultPanic       = "panic"
	resultUndelivered = "undelivered"
)

// verdict is what became of a call: for the user, the log and the metrics.
type verdict struct {
	text   string // the sentence that is answered, if it failed
	result string
	level  slog.Level
	lost   bool // the engine and the backend may disagree on what is in use
}

// judge says what becomes of a call that ended with err, which may be nil.
func judge(c *call, err error, timeout time.Duration) verdict {
	if err == nil {
		return verdict{result: resultOK, level: slog.LevelDebug}
	}
	v := verdict{level: slog.LevelWarn, lost: true}
	switch known, ok := errors.AsType[*ipam.Error](err); {
	case errors.Is(err, errGone):
		v.result = resultUndelivered
	case errors.Is(err, errNoBody):
		v.text, v.result = errNoBody.Error(), resultNoBody
	case errors.Is(err, errCutOff):
		v.text, v.result = errCutOff.Error(), resultCutOff
	case ok:
		v.text, v.result, v.lost = clip(known.Text), ipam.Code(known), false
		if !errors.Is(err, ipam.ErrNotReady) && !errors.Is(err, ipam.ErrSuspended) && !errors.Is(err, ipam.ErrStopped) {
			v.level = slog.LevelInfo
		}
	case errors.Is(err, context.DeadlineExceeded):
		v.text, v.result = tooLate(c, timeout), ipam.ErrNotReady.Error()
	default:
		v.text = fmt.Sprintf("internal error, see the plugin log (request %s)", c.ID())
		v.result, v.level = ipam.Code(err), slog.LevelError
		if _, ok := errors.AsType[*panicked](err); ok {
			v.result = resultPanic
		}
	}
	return v
}

// tooLate says what was not there in time.
func tooLate(c *call, timeout time.Duration) string {
	what := "an answer"
	switch {
	case c.method == callRequestPool && c.pool.IsValid():
		what = fmt.Sprintf("the subnet %v", c.pool)
	case c.method == callRequestPool:
		what = "a subnet for the network"
	case c.method == callRequestAddress && c.addr.IsValid():
		what = fmt.Sprintf("the address %v in %v", c.addr, c.pool)
	case c.method == callRequestAddress:
		what = fmt.Sprintf("an address in %v", c.pool)
	}
	return fmt.Sprintf("ringlet could not give %s within %v, because it waited for its disk or for other hosts: see ringlet status, then run the command again", what, timeout)
}

// No text that somebody else wrote is passed on without bound: the reader of
// our log in engine 20.10 ends for good at a line of 64 KiB.
const (
	maxQuote = 80      // of what a user typed, in bytes
	maxText  = 1024    // of a sentence, in bytes
	maxStack = 8 << 10 // of a panic's stack, in bytes
)

func clip(s string) string { return clipTo(s, maxText) }

// clipTo cuts off what a text has beyond n bytes, between two characters.
func clipTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// quote shows what a user typed.
func quote(s string) string { return strconv.Quote(clipTo(s, maxQuote)) }
