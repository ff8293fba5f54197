package directory

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/identity"
)

const (
	// askAgain is how long passes until the engine is asked again that did not
	// answer.
	askAgain = 10 * time.Second
	// answerTime is how long it has for its answer. Nothing is said meanwhile.
	answerTime = 2 * time.Second
	// startTime is after how long it is asked again about a container that had not started. Each further time takes twice as long, up
	// to maxStartTime.
	startTime    = 2 * time.Second
	maxStartTime = 5 * time.Minute
	// maxPorts is how many ports of a container are told.
	maxPorts = 32
	// maxVirtual is how many virtual addresses of a service are told.
	maxVirtual = 32
	// maxAsked is how many containers it is asked about at a time.
	maxAsked = 100
)

// Container is what the engine tells of a container.
type Container struct {
	Namespace, Service string // the service that it is one of; Service is empty: none
	Labels             string // its label set, see [identity.Text]; empty: none, it has no identity
	Swarm              bool   // the service is one of a swarm
	Started            bool   // it has started, and so the ports of one of a service are known
	Ports              []Port // that it exposes or publishes, in order
}

// SwarmService is a service of a swarm that has virtual addresses.
type SwarmService struct {
	Namespace, Service string
	Virtual            []VirtualAddress // in order
}

// services are the services and label sets of this peer's containers, as far as the engine has told. Of containers that
// have neither it keeps nothing: they are most, and that they have been asked about says the number of the change that
// told of them. It belongs to the publisher.
type services struct {
	ask func(ctx context.Context, containers []string) (map[string]Container, error)
	// told returns containers that were told of behind a change, and up to which.
	told func(after uint64, limit int) (list []Endpoint, upTo uint64)

	prefix  string                      // of the keys of services
	node    string                      // this peer's name
	at      map[netip.Addr]Endpoint     // the addresses of containers that have a service or a label set
	of      map[string][]netip.Addr     // by such a container: its addresses
	facts   map[string]fact             // by such a container
	asked   uint64                      // containers that were told of by changes up to this one were asked about
	behind  bool                        // there are others
	silent  time.Time                   // when the engine did not answer; zero: it did
	changed map[string]bool             // keys
	virtual map[string][]VirtualAddress // by key: those of services of the swarm that this host manages

	setsPrefix string // of the keys of label sets

	sets   map[string]*labelSet // by text: those that a container has
	longs  int                  // containers whose label set is too long
	fresh  []Endpoint           // whose containers have come to a label set since that was last flushed
	unsure bool                 // sets or their numbers have changed since then
}

// fact is what is known of a container.
type fact struct {
	key  string    // of its service; empty: it is of none
	set  *labelSet // nil: it has none
	long int       // bytes of its label set, if that is too long to have a number; else 0

	swarm bool      // its service is one of a swarm
	ports []Port    // of a container of a service
	again time.Time // when the engine is asked for them again; zero: they are known
	pause time.Duration
}

func (f fact) isNone() bool { return f.key == "" && f.set == nil && f.long == 0 }

// labelSet is a label set that a container of this peer has.
type labelSet struct {
	text       string
	number     uint64 // 0: it has none
	next       uint64 // the number, while it is looked up
	containers int
	dirty      bool // it is to be told anew
}

func newServices(cfg Config, told func(after uint64, limit int) ([]Endpoint, uint64)) *services {
	return &services{
		ask: cfg.Containers, told: told, prefix: ServiceKeys(cfg.Cluster), setsPrefix: IdentityUseKeys(cfg.Cluster), node: string(cfg.Self.Name),
		at: map[netip.Addr]Endpoint{}, of: map[string][]netip.Addr{}, facts: map[string]fact{}, changed: map[string]bool{},
		sets: map[string]*labelSet{},
	}
}

// forget forgets all: nothing is said any more.
func (s *services) forget() {
	clear(s.at)
	clear(s.of)
	clear(s.facts)
	clear(s.changed)
	clear(s.virtual)
	clear(s.sets)
	s.longs, s.fresh, s.unsure = 0, nil, true
}

// anew has everything said again, and the engine asked again about all containers of which nothing is known.
func (s *services) anew() {
	for _, f := range s.facts {
		s.changed[f.key] = true
	}
	for key := range s.virtual {
		s.changed[key] = true
	}
	for _, set := range s.sets {
		set.dirty = true
	}
	s.asked, s.behind, s.silent, s.unsure = 0, s.ask != nil, time.Time{}, true
}

// set notes that somebody else has an address now, or more is known of who has
// it: no container, if the endpoint has none.
func (s *services) set(a netip.Addr, now Endpoint) {
	if s.ask == nil {
		return
	}
	s.behind = s.behind || now.Container != ""
	was, there := s.at[a]
	f, known := s.facts[now.Container]
	if !there && !known || was == now {
		return
	}
	s.changed[s.facts[was.Container].key] = true
	if was.Container != now.Container {
		s.leave(a, was.Container)
	}
	if known {
		s.join(now, f)
	}
}

func (s *services) leave(a netip.Addr, id string) {
	delete(s.at, a)
	s.of[id] = slices.DeleteFunc(s.of[id], func(its netip.Addr) bool { return its == a })
	if len(s.of[id]) > 0 {
		return
	}
	f := s.facts[id]
	delete(s.of, id)
	delete(s.facts, id)
	if f.set != nil {
		f.set.containers--
		s.unsure = s.unsure || f.set.containers == 0
	}
	if f.long > 0 {
		s.longs--
		s.unsure = true
	}
}

// join notes what is known of the container that has an address.
func (s *services) join(e Endpoint, f fact) {
	if len(s.of[e.Container]) == 0 {
		s.facts[e.Container] = f
		if f.set != nil {
			f.set.containers++
		}
		if f.long > 0 {
			s.longs++
		}
	}
	if !slices.Contains(s.of[e.Container], e.Address) {
		s.of[e.Container] = append(s.of[e.Container], e.Address)
	}
	s.at[e.Address] = e
	s.changed[s.facts[e.Container].key] = true
}

// learned notes what the engine has told of the container that has an address.
func (s *services) learned(e Endpoint, c Container) {
	var f fact
	if c.Service != "" {
		f.key = s.prefix + c.Namespace + "/" + c.Service
		f.swarm = c.Swarm
		f = f.started(c, time.Now())
	}
	switch n := len(c.Labels); {
	case n > identity.MaxText:
		f.long = n
	case n > 0:
		if f.set = s.sets[c.Labels]; f.set == nil {
			f.set = &labelSet{text: c.Labels}
			s.sets[c.Labels] = f.set
		}
	}
	if f.isNone() {
		return
	}
	s.join(e, f)
	if f.set != nil || f.long > 0 {
		s.fresh = append(s.fresh, e)
		s.unsure = true
	}
}

// started returns the fact with the ports of the container, or when to ask for them again: the engine tells them once it has started.
func (f fact) started(c Container, now time.Time) fact {
	f.ports, f.again = c.Ports, time.Time{}
	if !c.Started {
		f.pause = min(max(2*f.pause, startTime), maxStartTime)
		f.again = now.Add(f.pause)
	}
	return f
}

// due is when the engine is to be asked again; zero: not at all.
func (s *services) due() (at time.Time) {
	if s.behind {
		at = s.silent.Add(askAgain)
	}
	for _, f := range s.facts {
		if !f.again.IsZero() && (at.IsZero() || f.again.Before(at)) {
			at = f.again
		}
	}
	if again := s.silent.Add(askAgain); !at.IsZero() && at.Before(again) {
		return again
	}
	return at
}

// resolvePorts asks the engine about containers that had not started, some at a time.
func (s *services) resolvePorts(ctx context.Context) {
	now := time.Now()
	if now.Sub(s.silent) < askAgain {
		return
	}
	var ids []string
	for id, f := range s.facts {
		if !f.again.IsZero() && !f.again.After(now) && len(ids) < maxAsked {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	found, err := s.inquire(ctx, ids)
	if err != nil {
		return
	}
	for _, id := range ids {
		f := s.facts[id].started(found[id], now)
		s.facts[id] = f
		if f.again.IsZero() {
			s.changed[f.key] = true
		}
	}
}

// inquire asks the engine about containers, for as long as it has for its answer.
func (s *services) inquire(ctx context.Context, ids []string) (map[string]Container, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	found, err := s.ask(bounded, ids)
	if err != nil {
		s.silent = time.Now()
	}
	return found, err
}

// resolve asks the engine about containers, for as long as it answers.
func (s *services) resolve(ctx context.Context) {
	s.resolvePorts(ctx)
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
			found, err := s.inquire(ctx, ids)
			if err != nil {
				return
			}
			for _, e := range list {
				s.learned(e, found[e.Container])
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
	out := Service{Node: s.node, Endpoints: []ServiceEndpoint{}}
	for id, its := range s.facts {
		if its.key != key {
			continue
		}
		out.Swarm = out.Swarm || its.swarm
		told := min(len(its.ports), maxPorts)
		for _, a := range s.of[id] {
			out.Endpoints = append(out.Endpoints, ServiceEndpoint{s.at[a], its.ports[:told], len(its.ports) - told})
		}
	}
	out.Virtual = s.virtual[key]
	if len(out.Endpoints)+len(out.Virtual) == 0 {
		return nil
	}
	slices.SortFunc(out.Endpoints, func(a, b ServiceEndpoint) int { return a.Address.Compare(b.Address) })
	all := len(out.Endpoints)
	return fitting(all, func(n int) any {
		out.Endpoints, out.More = out.Endpoints[:n], all-n
		return out
	})
}

// serves reports whether a key is that of a service of this peer's containers, or of one with virtual addresses.
func (s *services) serves(key string) bool {
	if len(s.virtual[key]) > 0 {
		return true
	}
	for _, f := range s.facts {
		if f.key == key {
			return true
		}
	}
	return false
}

// uses reports whether a key is that of a label set of this peer's containers.
func (s *services) uses(key string) bool {
	text, its := strings.CutSuffix(strings.TrimPrefix(key, s.setsPrefix), "/"+s.node)
	set := s.sets[text]
	return its && set != nil && set.number != 0 && set.containers > 0
}

// identityOf returns the number of the label set of a container, 0 if none is known.
func (s *services) identityOf(container string) uint64 {
	if set := s.facts[container].set; set != nil {
		return set.number
	}
	return 0
}

// number notes which label sets have numbers, and returns those that have none, in order.
func (s *services) number(known []identity.Set) (missing []string) {
	for _, set := range s.sets {
		set.next = 0
	}
	if len(s.sets) > 0 {
		for i := range known {
			if set := s.sets[known[i].Text]; set != nil {
				set.next = known[i].Number
			}
		}
	}
	for text, set := range s.sets {
		if set.next != set.number {
			set.number, set.dirty = set.next, true
		}
		if set.number == 0 && set.containers > 0 {
			missing = append(missing, text)
		}
	}
	slices.Sort(missing)
	return missing
}

// longest names a container whose label set is too long; nil if there is none.
func (s *services) longest() error {
	if s.longs == 0 {
		return nil
	}
	var out *LongError
	for id, f := range s.facts {
		if f.long == 0 {
			continue
		}
		name := id[:min(len(id), shortID)]
		for _, a := range s.of[id] {
			name = cmp.Or(s.at[a].Name, name)
		}
		if out == nil || name < out.Container { // always the same one
			out = &LongError{Container: name, Bytes: f.long}
		}
	}
	out.More = s.longs - 1
	return out
}

// shortID is how many digits of a container's ID people see.
const shortID = 12

// flushSets returns the keys of label sets that are to be told anew, with their values, nil for those that no container
// has any more or that have no number, and the endpoints whose identity is to be told anew.
func (s *services) flushSets() (keys []string, values [][]byte, changed []Endpoint) {
	dirty := false
	for text, set := range s.sets {
		if set.containers == 0 {
			delete(s.sets, text)
		}
		if set.containers > 0 && !set.dirty {
			continue
		}
		var value []byte
		if set.containers > 0 && set.number != 0 {
			value = encode(IdentityUse{set.number})
		}
		keys, values = append(keys, s.setsPrefix+text+"/"+s.node), append(values, value)
		dirty = dirty || set.dirty
	}
	for _, e := range s.fresh {
		if s.at[e.Address].Container == e.Container {
			changed = append(changed, e)
		}
	}
	if dirty {
		for id, f := range s.facts {
			if f.set == nil || !f.set.dirty {
				continue
			}
			for _, a := range s.of[id] {
				changed = append(changed, s.at[a])
			}
		}
		for _, set := range s.sets {
			set.dirty = false
		}
	}
	s.fresh, s.unsure = nil, false
	return keys, values, changed
}

// manage notes the virtual addresses of a swarm's services, of those that have endpoints on some host.
func (s *services) manage(list []SwarmService, there map[string]bool) {
	now := map[string][]VirtualAddress{}
	for _, v := range list {
		if key := s.prefix + v.Namespace + "/" + v.Service; there[key] {
			now[key] = v.Virtual[:min(len(v.Virtual), maxVirtual)]
		}
	}
	for key, was := range s.virtual {
		if !slices.Equal(was, now[key]) {
			s.changed[key] = true
		}
	}
	for key := range now {
		if s.virtual[key] == nil {
			s.changed[key] = true
		}
	}
	s.virtual = now
}
