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
// told. It belongs to the publisher.
type services struct {
	ask func(ctx context.Context, containers []string) (map[string][2]string, error)

	prefix  string                         // of the keys
	node    string                         // this peer's name
	at      map[netip.Addr]Endpoint        // the addresses of containers
	of      map[string]map[netip.Addr]bool // by container: its addresses
	keys    map[string]string              // by container, of those that are of a service, as far as the engine has told
	unknown map[string]bool                // containers to be asked about
	asked   time.Time                      // when the engine did not answer; zero: it did
	changed map[string]bool                // keys
}

func newServices(cfg Config) *services {
	return &services{
		ask: cfg.Services, prefix: ServiceKeys(cfg.Cluster), node: string(cfg.Self.Name),
		at: map[netip.Addr]Endpoint{}, of: map[string]map[netip.Addr]bool{}, keys: map[string]string{},
		unknown: map[string]bool{}, changed: map[string]bool{},
	}
}

// set notes who has an address: no container, if the endpoint has none.
func (s *services) set(a netip.Addr, now Endpoint) {
	was := s.at[a]
	if s.ask == nil || was == now {
		return
	}
	s.changed[s.keys[was.Container]] = true
	if was.Container != now.Container {
		s.leave(a, was.Container)
		s.join(a, now.Container)
	}
	if s.at[a] = now; now.Container == "" {
		delete(s.at, a)
	}
	s.changed[s.keys[now.Container]] = true
}

func (s *services) leave(a netip.Addr, id string) {
	if delete(s.of[id], a); len(s.of[id]) == 0 {
		delete(s.of, id)
		delete(s.keys, id)
		delete(s.unknown, id)
	}
}

func (s *services) join(a netip.Addr, id string) {
	if id == "" {
		return
	}
	if s.of[id] == nil {
		s.of[id] = map[netip.Addr]bool{}
		s.unknown[id] = true
	}
	s.of[id][a] = true
}

// due is when the engine is to be asked again; zero: not at all.
func (s *services) due() time.Time {
	if len(s.unknown) == 0 {
		return time.Time{}
	}
	return s.asked.Add(askAgain)
}

// resolve asks the engine about containers, for as long as it answers.
func (s *services) resolve(ctx context.Context) {
	for len(s.unknown) > 0 && time.Since(s.asked) >= askAgain {
		var ids []string
		for id := range s.unknown {
			if ids = append(ids, id); len(ids) == maxAsked {
				break
			}
		}
		bounded, cancel := context.WithTimeout(ctx, answerTime)
		found, err := s.ask(bounded, ids)
		cancel()
		if err != nil {
			s.asked = time.Now()
			return
		}
		s.asked = time.Time{}
		for _, id := range ids {
			delete(s.unknown, id)
			if of := found[id]; of[1] != "" {
				s.keys[id] = s.prefix + of[0] + "/" + of[1]
				s.changed[s.keys[id]] = true
			}
		}
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
