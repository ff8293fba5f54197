package admin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// Directory is what the peers of the cluster say of themselves. It is safe for
// concurrent use.
type Directory interface {
	// Get returns a key, from each peer that has set it.
	Get(key string) []directory.Item
	// List returns the keys with a prefix that come after one, in order, so many
	// at most, and no further one once their values have so many bytes, and reports
	// whether there are more.
	List(prefix, after string, limit, bytes int) (list []directory.Item, more bool)
	// Holdings returns who has an address.
	Holdings(a netip.Addr) []directory.Holding
	// Places returns the addresses that peers say they have, in order, of those that
	// are wanted by their ID; Said what they say of some.
	Places(wanted func(owner string) bool) []directory.Place
	Said(places []directory.Place) []directory.Holding
	// Labels returns the label set that has a number; false if none is known.
	Labels(number uint64) (map[string]string, bool)
	// Remove has every peer remove a key, or with below all that begin with it, and
	// set again what it holds. It waits for the peers, for some seconds at most.
	Remove(ctx context.Context, key string, below bool) directory.Removed
	// Ask asks the peers that can be reached who had an address at a time. It waits for
	// some seconds at most, and returns the IDs of those that have not answered.
	Ask(ctx context.Context, a netip.Addr, at time.Time) (told []directory.Testimony, silent []string)
	// Watch returns the changes after one, Last the ID of the last.
	Watch(after events.ID) *directory.Changes
	Last() events.ID
}

// Limits of one answer of /v1/kv, in keys, and in bytes of their values: one that has
// so many ends it.
const (
	defaultKeys  = 1000
	maxKeys      = 5000
	maxValues    = 4 << 20
	maxFedValues = 256 << 10 // of a stream, of which there may be many
)

func (s *Server) kvRoute() route {
	return route{
		method: http.MethodGet, path: "/v1/kv/{key}", tail: true, call: "kv",
		query: []string{"recursive", "watch", "after", "limit", "since"}, handle: s.kv,
	}
}

// kv answers with one key, with those that begin like it, or with what becomes
// of these.
func (s *Server) kv(ctx context.Context, r *request) (answer, error) {
	key := r.http.PathValue("key")
	recursive, err := flag(r, "recursive")
	if err != nil {
		return answer{}, err
	}
	watch, err := flag(r, "watch")
	if err != nil {
		return answer{}, err
	}
	limit := defaultKeys
	if text := r.query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxKeys {
			return answer{}, badRequest("limit is a number of keys from 1 to %d, not %q", maxKeys, text)
		}
	}
	switch {
	case watch && r.http.Method != http.MethodHead:
		since, err := lastSeen(r)
		if err != nil {
			return answer{}, err
		}
		return s.follow(newKeyFeed(s.cfg.Directory, s.crowd, key, since))
	case recursive:
		if err := s.takeList(ctx, r, false); err != nil {
			return answer{}, err
		}
		var list []directory.Item
		err := s.crowd.do(ctx, func() { list, _ = s.cfg.Directory.List(key, r.query.Get("after"), limit, maxValues) })
		return answer{body: list}, err
	}
	list := s.cfg.Directory.Get(key)
	if len(list) == 0 {
		return answer{}, problem(http.StatusNotFound, CodeNoKey,
			"the directory has no key %q now: ringlet kv get --recursive, or ?recursive=true, lists those that begin with it", key)
	}
	return answer{body: list}, nil
}

func (s *Server) kvRemoveRoute() route {
	return route{
		method: http.MethodDelete, path: "/v1/kv/{key}", tail: true, call: "kv-remove",
		query: []string{"recursive"}, write: true, handle: s.removeKeys,
	}
}

// RemovedKeys is the answer of a request to remove keys.
type RemovedKeys struct {
	Keys int `json:"keys"` // that were there; those of other clusters stay
	// Silent are the peers that have not removed theirs, by name: these keys go when
	// the leases of the peers end.
	Silent []string `json:"silent"`
}

// removeKeys removes one key, or those that begin like it, from all peers.
func (s *Server) removeKeys(ctx context.Context, r *request) (answer, error) {
	key := r.http.PathValue("key")
	recursive, err := flag(r, "recursive")
	switch {
	case err != nil:
		return answer{}, err
	case key == "" && !recursive:
		return answer{}, badRequest("name the key, or with recursive=true what the keys begin with")
	case len(key) > replica.MaxKey:
		return answer{}, badRequest("the key has %d bytes, and none has more than %d", len(key), replica.MaxKey)
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return answer{}, err
	}
	did := s.cfg.Directory.Remove(ctx, key, recursive)
	out := RemovedKeys{Keys: did.Keys, Silent: []string{}}
	for _, id := range did.Silent {
		out.Silent = append(out.Silent, nameOf(&st, id))
	}
	return answer{body: out}, nil
}

// nameOf returns the name of a peer; its ID if nobody knows it.
func nameOf(st *ipam.Status, id string) string {
	for i := range st.Peers {
		if st.Peers[i].ID == id {
			return st.Peers[i].Name
		}
	}
	return id
}

// flag reads a parameter that is true or false, or left out.
func flag(r *request, name string) (bool, error) {
	switch v := r.query.Get(name); v {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, badRequest("%s is true or false, not %q", name, v)
	}
}

// keyFeed is what one client is sent of the keys with a prefix: all that there
// are after "reset", each as "put", until "synced"; then each "put" and
// "delete" as it comes. A client that comes again goes on where it was, if what
// followed is kept; else it begins anew.
type keyFeed struct {
	dir    Directory
	crowd  *crowd
	prefix string

	reader  *directory.Changes // nil: listing
	at      events.ID          // up to which the client has everything
	after   string             // the last key that was listed
	resetIt bool               // the client is to forget what it has
}

func newKeyFeed(dir Directory, c *crowd, prefix string, since events.ID) *keyFeed {
	f := &keyFeed{dir: dir, crowd: c, prefix: prefix, at: since}
	if since.IsZero() {
		f.begin()
	} else {
		f.reader = dir.Watch(since)
	}
	return f
}

// begin begins anew. What changes while it is listed comes again after that.
func (f *keyFeed) begin() { f.reader, f.at, f.after, f.resetIt = nil, f.dir.Last(), "", true }

// seen implements [feed].
func (f *keyFeed) seen() events.ID {
	if f.reader == nil { // who breaks off now has to begin anew
		return events.ID{}
	}
	return f.at
}

// next implements [feed].
func (f *keyFeed) next(ctx context.Context) ([]byte, error) {
	if f.reader == nil {
		var text []byte
		err := f.crowd.do(ctx, func() { text = f.list() })
		return text, err
	}
	wait, cancel := context.WithTimeoutCause(ctx, heartbeat, nil)
	defer cancel()
	list, first, err := f.reader.Next(wait)
	if _, gap := errors.AsType[*events.GapError](err); gap {
		f.begin()
		return nil, nil
	}
	if err != nil {
		return nil, ctx.Err() // or nothing happens
	}
	var out []byte
	err = f.crowd.do(ctx, func() {
		for i, e := range list {
			f.at = first.Plus(uint64(i))
			if !strings.HasPrefix(e.Key, f.prefix) {
				continue
			}
			name := "put"
			if e.Value == nil {
				name = "delete"
			}
			out = append(out, message(name, f.at, directory.ChangeOf(e))...)
		}
	})
	return out, err
}

// list returns the next keys that there are. They have no IDs: a client that
// breaks off between them has to begin anew.
func (f *keyFeed) list() []byte {
	var out []byte
	if f.resetIt {
		out, f.resetIt = message("reset", events.ID{}, struct{}{}), false
	}
	list, more := f.dir.List(f.prefix, f.after, defaultKeys, maxFedValues)
	for _, item := range list {
		out = append(out, message("put", events.ID{}, directory.Change{Key: item.Key, Value: item.Value, Owner: item.Owner})...)
		f.after = item.Key
	}
	if !more {
		f.reader = f.dir.Watch(f.at)
		out = append(out, message("synced", f.at, struct{}{})...)
	}
	return out
}
