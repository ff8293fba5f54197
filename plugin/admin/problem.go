package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Codes of problems that are the API's own, beside those of package ipam.
const (
	CodeNotFound     = "not-found"          // there is no such path
	CodeMethod       = "method-not-allowed" // the path does not know the method
	CodeTooLarge     = "too-large"          // the body is above its limit
	CodeReadOnly     = "read-only"          // nothing can be changed here
	CodeUnauthorized = "unauthorized"       // the token is missing or wrong
	CodeBusy         = "busy"               // too many requests wait already
	CodeTimeout      = "timeout"            // the deadline passed
	CodeInternal     = "internal"           // see the log
	CodeNoKey        = "no-such-key"        // the directory does not have it
	CodeMisdirected  = "misdirected"        // the server does not go by the name it was asked by
	CodeCrossSite    = "cross-site"         // a page of another site made a browser ask
	// CodeTooManyGuesses is that of a source which has sent too many wrong tokens.
	CodeTooManyGuesses = "too-many-wrong-tokens"
)

// Problem is the body of every answer that is an error (RFC 9457). Code is
// stable, and one of package ipam's or of this package's; Detail is a sentence
// for people and may change.
type Problem struct { //nolint:errname // what RFC 9457 calls it
	Type     string `json:"type"`   // about:blank: the status says it all
	Title    string `json:"title"`  // of the status
	Status   int    `json:"status"` // of the answer
	Detail   string `json:"detail"`
	Code     string `json:"code"`
	Instance string `json:"instance"` // the request's ID, which is in the log
}

// Error returns the sentence.
func (p *Problem) Error() string { return p.Detail }

// problem makes a Problem; the request's ID is filled in with the answer.
func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{
		Type:   "about:blank",
		Title:  http.StatusText(status),
		Status: status,
		Detail: fmt.Sprintf(format, args...),
		Code:   code,
	}
}

func badRequest(format string, args ...any) error {
	return &ipam.Error{Kind: ipam.ErrBadRequest, Text: fmt.Sprintf(format, args...)}
}

// statusOf returns the HTTP status of a code of package ipam. Retrying helps
// against a 503, doing something first against a 409.
func statusOf(code string) int {
	switch code {
	case ipam.ErrBadRequest.Error(), ipam.ErrAddressOutOfRange.Error():
		return http.StatusBadRequest
	case ipam.ErrPoolNotFound.Error(), ipam.ErrAddressNotHeld.Error(), ipam.ErrPeerNotFound.Error():
		return http.StatusNotFound
	case ipam.ErrPoolOverlap.Error(), ipam.ErrPoolInUse.Error(), ipam.ErrNoSubnet.Error(),
		ipam.ErrAddressInUse.Error(), ipam.ErrAddressReserved.Error(), ipam.ErrNoAddress.Error(), ipam.ErrLocked.Error():
		return http.StatusConflict
	case ipam.ErrNotReady.Error(), ipam.ErrUnreachable.Error(), ipam.ErrSuspended.Error(), ipam.ErrStopped.Error():
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// problemOf says what err looks like from outside. It is false for an error
// that the caller must not see, and then the log must have it.
func problemOf(err error, timeout time.Duration) (*Problem, bool) {
	if p, ok := errors.AsType[*Problem](err); ok {
		copied := *p // the ID is written into it
		return &copied, true
	}
	if code := ipam.Code(err); statusOf(code) != http.StatusInternalServerError {
		e, _ := errors.AsType[*ipam.Error](err)
		return problem(statusOf(code), code, "%s", e.Text), true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return problem(http.StatusGatewayTimeout, CodeTimeout,
			"the allocator did not answer within %v; the request can be repeated safely", timeout), true
	}
	return problem(http.StatusInternalServerError, CodeInternal, "internal error, see the plugin log"), false
}
