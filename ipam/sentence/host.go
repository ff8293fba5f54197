package sentence

import (
	"errors"
	"fmt"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Leaving refuses what is new on a host that leaves its cluster.
func Leaving(host peer.Name) error {
	return Errorf(ErrNotReady, "ringlet on %s is leaving its cluster and accepts nothing new: run ringlet drain --undo to make it stay", host)
}

// Draining refuses a request for which a host that gives its ranges away would have to take another one.
func Draining(host peer.Name, p *chronicle.Pool) error {
	return Errorf(ErrNotReady, "ringlet on %s is draining and takes no more addresses from %s: start the container on another host, or run ringlet drain --undo", host, Pool(p))
}

// NoAgreement says that a decision was not made in time. away are the voters that cannot be reached.
func NoAgreement(host peer.Name, away []string) error {
	if len(away) == 0 {
		return Errorf(ErrNotReady, "ringlet on %s did not get the cluster's agreement in time: try again, and see ringlet status if it fails again", host)
	}
	return Errorf(ErrUnreachable, "ringlet on %s needs the agreement of a majority of its peers for this and cannot reach %s: start or reconnect those hosts; until then this host hands out addresses of its own ranges", host, List(away))
}

// NoVoteOfOther says that a decision was not made in time, since the other one of two hosts cannot be reached.
func NoVoteOfOther(host peer.Name, other string) error {
	return Errorf(ErrUnreachable, "ringlet on %s cannot reach %s, which has the deciding vote of the two hosts: start or reconnect it; until then this host hands out addresses of its own ranges, and makes no new pool; if that host is off for good, ringlet recover --help says how this host continues alone", host, other)
}

// Away says what to do about hosts that cannot be reached. refs name them as commands take them.
func Away(refs ...string) string {
	if len(refs) != 1 {
		return "start or reconnect those hosts; if one is off for good, release its addresses with ringlet evict and then ringlet forget"
	}
	return fmt.Sprintf("start or reconnect that host; if it is off for good, release its addresses with ringlet evict %s and then ringlet forget %s", refs[0], refs[0])
}

// Slow says what to do about hosts that can be reached, and do not answer in time.
const Slow = "check that the network between the hosts works, and see ringlet status"

// Behind says of an error that the opposite was requested before, and goes first. The caller has to be told, since that
// is done when nobody thinks of it any more.
func Behind(err error) error {
	return followed(err, "the opposite was requested before, and is done as soon as they agree: repeat the command after that")
}

// StaysWanted says of an error that the request, or a part of it, is done although its caller waits no longer. shows is
// the command that shows it.
func StaysWanted(err error, shows string, partly bool) error {
	next := "your request is done as soon as they agree, if that is still possible: " + shows + " shows it"
	if partly {
		next = "a part of " + next + "; repeat the command for the rest"
	}
	return followed(err, next)
}

// followed returns a refusal with more behind its sentence.
func followed(err error, more string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Kind: e.Kind, Text: e.Text + "; " + more}
	}
	return err
}
