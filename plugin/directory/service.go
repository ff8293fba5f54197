package directory

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

const (
	// askAgain is how long passes until the engine is asked again that did not
	// answer.
	askAgain = 10 * time.Second
	// answerTime is how long it has for its answer. Nothing is said meanwhile.
	answerTime = 2 * time.Second
	// maxAsked is how many containers it is asked about at a time.
	maxAsked = 100
)

// services are the services of this peer's containers, as far as the engine has
// told. Of containers that are of none it keeps nothing: they are most, and that
// they have been asked about says the number of the change that told of them. It
// belongs to the publisher.
type services struct {
	ask func(ctx context.Context, containers []string) (map[string][2]string, error)
	// told returns containers that were told of behind a change, and up to which.
	told func(after uint64, limit int) (list []Endpoint, upTo uint64)

	prefix  string                         // of the keys
	node    string                         // this peer's name
	at      map[netip.Addr]Endpoint        // the addresses of containers that are of a service
	of      map[string]map[netip.Addr]bool // by such a container: its addresses
	keys    map[string]string              // by such a container
	asked   uint64                         // containers that were told of by changes up to this one were asked about
	behind  bool                           // there are others
	silent  time.Time                      // when the engine did not answer; zero: it did
	changed map[string]bool                // keys
}

func newServices(cfg Config, told func(after uint64, limit int) ([]Endpoint, uint64)) *services {
	return &services{
		ask: cfg.Services, told: told, prefix: ServiceKeys(cfg.Cluster), node: string(cfg.Self.Name),
		at: map[netip.Addr]Endpoint{}, of: map[string]map[netip.Addr]bool{}, keys: map[string]string{}, changed: map[string]bool{},
	}
}

// forget forgets all: nothing is said any more, or it will be said anew.
func (s *services) forget() {
	clear(s.at)
	clear(s.of)
	clear(s.keys)
	clear(s.changed)
}

// set notes that somebody else has an address now, or more is known of who has
// it: no container, if the endpoint has none.
func (s *services) set(a netip.Addr, now Endpoint) {
	if s.ask == nil {
		return
	}
	s.behind = s.behind || now.Container != ""
	was, there := s.at[a]
	if key := s.keys[now.Container]; !there && key == "" || was == now {
		return
	}
	s.changed[s.keys[was.Container]] = true
	if was.Container != now.Container {
		s.leave(a, was.Container)
	}
	if key := s.keys[now.Container]; key != "" {
		s.join(now, key)
	}
}

func (s *services) leave(a netip.Addr, id string) {
	delete(s.at, a)
	if delete(s.of[id], a); len(s.of[id]) == 0 {
		delete(s.of, id)
		delete(s.keys, id)
	}
}

// join notes that a container is of the service with a key.
func (s *services) join(e Endpoint, key string) {
	if s.of[e.Container] == nil {
		s.of[e.Container] = map[netip.Addr]bool{}
	}
	s.of[e.Container][e.Address] = true
	s.at[e.Address], s.keys[e.Container] = e, key
	s.changed[key] = true
}

// due is when the engine is to be asked again; zero: not at all.
func (s *services) due() time.Time {
	if !s.behind {
		return time.Time{}
	}
	return s.silent.Add(askAgain)
}

// resolve asks the engine about containers, for as long as it answers.
func (s *services) resolve(ctx context.Context) {
	for s.behind && time.Since(s.silent) >= askAgain {
		list, upTo := s.told(s.asked, maxAsked)
		var ids []string
		for _, e := range list {
			if s.at[e.Address] != e {
				ids = append(ids, e.Container)
			}
		}
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) > 0 {
			bounded, cancel := context.WithTimeout(ctx, answerTime)
			found, err := s.ask(bounded, ids)
			cancel()
			if err != nil {
				s.silent = time.Now()
				return
			}
			for _, e := range list {
				if of := found[e.Container]; of[1] != "" {
					s.join(e, s.prefix+of[0]+"/"+of[1])
				}
			}
		}
		s.silent, s.asked, s.behind = time.Time{}, upTo, len(list) == maxAsked
	}
}

// flush returns the keys that have changed, with their values, nil for those
// that have no endpoint any more.
func (s *services) flush() (keys []string, values [][]byte) {
	delete(s.changed, "")
	for key := range s.changed {
		keys, values = append(keys, key), append(values, s.value(key))
	}
	clear(s.changed)
	return keys, values
}

func (s *services) value(key string) []byte {
	out := Service{Node: s.node}
	for id, its := range s.keys {
		if its != key {
			continue
		}
		for a := range s.of[id] {
			out.Endpoints = append(out.Endpoints, s.at[a])
		}
	}
	if len(out.Endpoints) == 0 {
		return nil
	}
	slices.SortFunc(out.Endpoints, func(a, b Endpoint) int { return a.Address.Compare(b.Address) })
	all := len(out.Endpoints)
	return fitting(all, func(n int) any {
		out.Endpoints, out.More = out.Endpoints[:n], all-n
		return out
	})
}
