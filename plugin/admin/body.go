package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ringlet/ringlet/ipam"
)

// NewAddress is the body of a request for an address.
type NewAddress struct {
	// For is the holder, by the name that the caller gives it; 1 to
	// [ipam.MaxHolder] bytes.
	For string `json:"for"`
	// Address is the address to claim; empty: choose one.
	Address string `json:"address,omitempty"`
}

// Grant answers a [NewAddress].
type Grant struct {
	Address netip.Addr   `json:"address"`
	Pool    netip.Prefix `json:"pool"`
	For     string       `json:"for"`
}

// NewPool is the body of a request for a pool.
type NewPool struct {
	CIDR string `json:"cidr"`           // masked
	Name string `json:"name,omitempty"` // empty for none
}

// MadePool answers a [NewPool].
type MadePool struct {
	ipam.PoolStatus
	Created bool `json:"created"` // false: there was such a pool before
}

// Drain is the body of a request that the peer give its space back.
type Drain struct {
	Undo bool `json:"undo,omitempty"` // true: no longer
	// Also has it drain although another peer does, or the others have no room for what is in use here.
	Also bool `json:"also,omitempty"`
}

// Leave is the body of a request that the peer leave its cluster.
type Leave struct {
	// Force has it leave although addresses are held; they are then kept back
	// like those of a host that was lost.
	Force bool `json:"force,omitempty"`
}

// Departure answers a [Drain] or a [Leave]: how far the peer is.
type Departure struct {
	State ipam.State `json:"state"` // of the peer, as in its status
	Owned uint64     `json:"owned"` // addresses that are still in its ranges, in all pools
	// Resting are those of them that were freed a moment ago: they go when they
	// have rested.
	Resting uint64 `json:"resting"`
	Held    uint64 `json:"held"` // those of them in use on its host, gateways included: they stay until they are freed
}

// Join is the body of a request that the peer meet another one.
type Join struct {
	Address string `json:"address"` // host, or host:port
}

// Joined answers a [Join].
type Joined struct {
	Address string `json:"address"` // as it was asked for
	Met     []Met  `json:"met"`     // who is there, or everybody who can be reached if that is not known
}

// Met is a peer that was met. It need not be of the same cluster, yet.
type Met struct {
	ID      string `json:"id"`
	Name    string `json:"name"` // empty if it has told none
	Address string `json:"address"`
}

// Eviction answers a request to evict a peer.
type Eviction struct {
	Peer string `json:"peer"` // its name
	// ID is empty for a peer that was forgotten since, or the space of which
	// its successor has taken over.
	ID       string `json:"id"`
	KeptBack uint64 `json:"kept_back"` // addresses that it may be using, in all pools: nobody else gets them
}

// Recover is the body of a request that the cluster be founded anew from this
// peer alone.
type Recover struct {
	// TheOthersAreGone must be true. It states that no other host of the cluster
	// still runs, or comes back with the data that it had.
	TheOthersAreGone bool `json:"the_others_are_gone"`
}

// Recovery answers a [Recover].
type Recovery struct {
	Cluster  string   `json:"cluster"`   // its ID, which is new
	Evicted  []string `json:"evicted"`   // the names of the peers that were evicted and not forgotten
	KeptBack uint64   `json:"kept_back"` // addresses that they may be using, in all pools
}

// Rejoin is the body of a request that the host start over as a new peer.
type Rejoin struct {
	// DryRun: only tell what the new peer would carry over.
	DryRun bool `json:"dry_run,omitempty"`
	// SetTheDatabaseAside must be true, unless DryRun is.
	SetTheDatabaseAside bool `json:"set_the_database_aside,omitempty"`
}

// Rejoining answers a [Rejoin]: what the new peer carries over.
type Rejoining struct {
	Former  string   `json:"former"`         // ID of the peer that starts over
	Peers   []string `json:"peers"`          // other peers that the new one looks for, by name and address
	InUse   int      `json:"in_use"`         // addresses that this host may use, which nobody hands out for ten minutes
	Clients []Claim  `json:"clients"`        // holders outside Docker, whose addresses are claimed again
	Kept    string   `json:"kept,omitempty"` // name of the file with the former database; empty if that is not done yet
}

// Claim is an address of a holder outside Docker.
type Claim struct {
	Address netip.Addr `json:"address"`
	Pool    string     `json:"pool"` // its CIDR
	For     string     `json:"for"`
}

// Trust is the body of a request that the peer go on with a database that was moved.
type Trust struct {
	// NoOtherCopyRuns must be true. It states that the data was moved to where it is, and
	// that no other copy of it runs, or is started again.
	NoOtherCopyRuns bool `json:"no_other_copy_runs"`
}

// Trusted answers a [Trust].
type Trusted struct {
	Peer  string     `json:"peer"` // its name
	ID    string     `json:"id"`
	State ipam.State `json:"state"` // as in its status
}

// Collection is the body of a request to free what leaks.
type Collection struct {
	Findings []ipam.Finding `json:"findings"` // of an [ipam.Audit]
	DryRun   bool           `json:"dry_run,omitempty"`
}

// decode reads exactly one JSON object with no other fields than v's. What
// encoding/json would put in the place of text that is none is refused: two
// names would become one.
func decode(body []byte, v any) error {
	if !utf8.Valid(body) {
		return badRequest("the request's body is not UTF-8: send it as UTF-8")
	}
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) { // which would do for an empty object
		return badRequest("the request's body must be a JSON object, not null")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badRequest("%s", bodyError(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the request's body must end after the JSON object")
	}
	return checkFields(body, v)
}

// checkFields refuses fields of an object, which [decode] has read into v, that are spelled in another case or given
// twice: encoding/json takes the last of them.
func checkFields(body []byte, v any) error {
	var known []string
	for f := range reflect.TypeOf(v).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known = append(known, name)
	}
	d, given := json.NewDecoder(bytes.NewReader(body)), map[string]bool{}
	_, _ = d.Token() // the brace: all of it was read before
	for d.More() {
		field, _ := d.Token()
		name := fmt.Sprint(field)
		switch i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); {
		case given[name]:
			return badRequest("%q is given twice: give it once", name)
		case i >= 0 && known[i] != name:
			return badRequest("unknown field %q: write it %q", name, known[i])
		}
		given[name] = true
		var value json.RawMessage
		_ = d.Decode(&value)
	}
	return nil
}

// bodyError says what is wrong with a body in words that need no knowledge of
// Go.
func bodyError(err error) string {
	if errors.Is(err, io.EOF) {
		return "the request needs a JSON object as body, but the body is empty"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the request's body ends in the middle of the JSON"
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if t.Field == "" {
			return fmt.Sprintf("the request's body must be a JSON object, not %s", t.Value)
		}
		return fmt.Sprintf("%q must be a %s, not %s", t.Field, t.Type.Kind(), t.Value)
	}
	return "the request's body cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")
}
