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

// trouble is an error with what to do about it.
type trouble struct {
	err  error
	next string // a sentence, empty if nothing is known to help
	code string // of the problem that it is wherever it is met; empty: what was tried decides
}

// Error implements error.
func (t *trouble) Error() string { return t.err.Error() }

// Unwrap returns the error without the advice.
func (t *trouble) Unwrap() error { return t.err }

func troublef(next, format string, args ...any) error {
	return &trouble{err: fmt.Errorf(format, args...), next: next}
}

// problem turns an error into what Status tells. The code is that of the error, if it has one.
func problem(code, prefix string, err error) Problem {
	p := Problem{Code: code, Text: prefix + strings.Join(strings.Fields(err.Error()), " ")}
	if t, ok := errors.AsType[*trouble](err); ok {
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

// causeOf returns the cause of a refusal that an operator can mend: that of a host that may be meant to be a peer.
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

// explain says what a cause means, of whoever is meant, and what to do.
func (g *Gossip) explain(c cause, who string) error {
	// A host that cannot be joined at for its keys has a problem with keys, as who is joined at has.
	keys := func(format string) error {
		return &trouble{
			fmt.Errorf(format, who),
			"give both peers the same keys, in RINGLET_KEY or RINGLET_KEY_FILE; one that was off while the keys changed needs the new key by hand",
			string(c),
		}
	}
	switch c {
	case causeLabel:
		return troublef("set the same RINGLET_CLUSTER on both hosts if they belong together, else take it out of RINGLET_JOIN",
			"%s speaks for another cluster than %q", who, g.cfg.Label)
	case causeKey:
		return keys("%s encrypts with a key that this peer does not have")
	case causePlain:
		return keys("%s does not encrypt, which is refused here")
	case causeNoKey:
		return keys("%s encrypts, and this peer has no key")
	default:
		return troublef("see which program has the port there; if it is ringlet, set the same RINGLET_CLUSTER and keys on both hosts, ringlet status there says which differ",
			"%s hangs up without an answer: it has another key, belongs to another cluster, or is no peer", who)
	}
}

// refusal says why a host that accepted a connection could not be joined at. Of an
// error of memberlist's there is only the text.
func (g *Gossip) refusal(why guard.Reason, err error) error {
	c, ok := causeOf(why)
	switch {
	case ok:
	case strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()):
		return troublef("see which program has the port there; if it is ringlet, whether the host is overloaded, or stopped; where only long packets are lost, ringlet doctor on both hosts tells the MTU",
			"it takes connections, and does not answer as a peer")
	default:
		c = causeUnclear
	}
	return g.explain(c, "it")
}

// unreachable says why a connection failed. The operating system's text says
// it among numbers.
func unreachable(err error) error {
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return troublef("start ringlet there, or correct the port", "the host is there, and nothing listens on the port")
	case ok && timeout.Timeout():
		return troublef("see whether the host is up, and open the port for TCP and UDP in its firewall", "it does not answer")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return troublef("see whether the host is up and the address is right", "there is no way to it")
	}
	return troublef("see the firewalls and routes between the two hosts", "%w", err)
}
