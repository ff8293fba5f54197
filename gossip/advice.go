package gossip

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/ringlet/ringlet/gossip/guard"
)

// adviceError is an error with what to do about it.
type adviceError struct {
	err  error
	next string // a sentence, empty if nothing is known to help
	code string // of the problem that it is wherever it is met; empty: what was tried decides
}

// Error implements error.
func (t *adviceError) Error() string { return t.err.Error() }

// Unwrap returns the error without the advice.
func (t *adviceError) Unwrap() error { return t.err }

func adviceErrorf(next, format string, args ...any) error {
	return &adviceError{err: fmt.Errorf(format, args...), next: next}
}

// problem turns an error into what Status shows. The code is that of the error, if it has one.
func problem(code, prefix string, err error) Problem {
	p := Problem{Code: code, Text: prefix + strings.Join(strings.Fields(err.Error()), " ")}
	if t, ok := errors.AsType[*adviceError](err); ok {
		p.Next = t.next
		if t.code != "" {
			p.Code = t.code
		}
	}
	return p
}

// cause is why another peer cannot be talked to.
type cause string

const (
	causeLabel   cause = "foreign-label"
	causeKey     cause = "foreign-key"
	causePlain   cause = "unencrypted-peer"
	causeNoKey   cause = "no-key"
	causeUnclear cause = "foreign-peer"
)

// causeOf returns the cause of a refusal, if an operator can mend it: the host may be meant to be a peer.
func causeOf(why guard.Reason) (cause, bool) {
	switch why {
	case guard.Label:
		return causeLabel, true
	case guard.Key:
		return causeKey, true
	case guard.Plain:
		return causePlain, true
	case guard.Encrypted:
		return causeNoKey, true
	default:
	}
	return "", false
}

// explain says what a cause means for a host, and what to do.
func (g *Gossip) explain(c cause, who string) error {
	// If joining fails because of keys, that is a problem of keys on both hosts.
	keys := func(format string) error {
		return &adviceError{
			fmt.Errorf(format, who),
			"give both hosts the same keys, in RINGLET_KEY or RINGLET_KEY_FILE; if one was off while the keys changed, give it the new key by hand",
			string(c),
		}
	}
	switch c {
	case causeLabel:
		return adviceErrorf("set the same RINGLET_CLUSTER on both hosts if they belong together; otherwise remove the host from RINGLET_JOIN",
			"%s is in another cluster than %q", who, g.cfg.Label)
	case causeKey:
		return keys("%s encrypts with a key that this host does not have")
	case causePlain:
		return keys("%s does not encrypt, and this host refuses that")
	case causeNoKey:
		return keys("%s encrypts, but this host has no key")
	default:
		return adviceErrorf("check which program has the port there; if it is ringlet, set the same RINGLET_CLUSTER and keys on both hosts; ringlet status there says what differs",
			"%s closes the connection without an answer: it has another key, is in another cluster, or is not ringlet", who)
	}
}

// refusal says why a host that accepted a connection could not be joined. An error of
// memberlist is known by its text only.
func (g *Gossip) refusal(why guard.Reason, err error) error {
	c, ok := causeOf(why)
	switch {
	case ok:
	case strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()):
		return adviceErrorf("check which program has the port there; if it is ringlet, check whether the host is overloaded or stopped; if only long packets are lost, run ringlet doctor on both hosts, it checks the MTU",
			"it accepts connections, but does not answer like ringlet")
	default:
		c = causeUnclear
	}
	return g.explain(c, "it")
}

// unreachable says why a connection failed, in plainer words than the operating system.
func unreachable(err error) error {
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return adviceErrorf("start ringlet there, or correct the port", "the host is up, but nothing listens on the port")
	case ok && timeout.Timeout():
		return adviceErrorf("check that the host is up, and open the port for TCP and UDP in its firewall", "it does not answer")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return adviceErrorf("check that the host is up and the address is right", "there is no route to it")
	}
	return adviceErrorf("check the firewalls and routes between the two hosts", "%w", err)
}
