package directory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/internal/wake"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/identity"
)

const (
	// askedAtOnce is for how many label sets the cluster is asked for numbers at a time.
	askedAtOnce = 16
	// sweepEvery is how often it is looked for label sets to which no host refers. One that is found in two sweeps is
	// collected.
	sweepEvery = 15 * time.Minute
	// collectedAtOnce is how many label sets are collected at a time.
	collectedAtOnce = 256
)

// IdentityKeys is the prefix of the keys of the label sets that have numbers.
func IdentityKeys(cluster string) string { return "ringlet/state/identities/v1/" + cluster + "/id/" }

// IdentityUseKeys is the prefix of the keys of the hosts that use them.
func IdentityUseKeys(cluster string) string {
	return "ringlet/state/identities/v1/" + cluster + "/value/"
}

// LabelSet is a label set that has a number. It is agreed.
type LabelSet struct {
	Labels map[string]string `json:"labels"`
}

// IdentityUse says that containers of a host have a label set, and which number it has.
type IdentityUse struct {
	Identity uint64 `json:"identity"`
}

// Identities agrees with the cluster on the numbers of label sets. Its methods may wait for the disk, and Identify for
// other peers.
type Identities interface {
	// Identities returns the label sets that have numbers, as the peer knows. It may be read from other goroutines.
	Identities(ctx context.Context) (identity.Registry, error)
	// Identify has label sets get numbers, and numbers be collected. Its error is an [ipam.ErrBadRequest] if there is
	// no room for some of the sets.
	Identify(ctx context.Context, r ipam.IdentityRequest) error
}

// LongError is the error of a container that has no identity, because its labels are too long.
type LongError struct {
	Container string // its name, or the begin of its ID
	Bytes     int    // of its label set
	More      int    // how many other containers there are like it
}

// Error says which container it is.
func (e *LongError) Error() string {
	text := fmt.Sprintf("container %s has no identity: its labels take %d bytes, and at most %d count", e.Container, e.Bytes, identity.MaxText)
	if e.More > 0 {
		text += fmt.Sprintf(" (and %d more)", e.More)
	}
	return text
}

// agreement is what this peer knows of the numbers of label sets, and what it wants. The publisher and the goroutine
// that asks the cluster share it; d.mu guards it.
type agreement struct {
	cluster [16]byte
	known   identity.Registry
	version uint64   // of what is known; it rises
	missing []string // the sets of containers of this peer that have no number, as far as the publisher knows, in order
	long    error    // a [LongError]; nil: there is none
	full    error    // that some sets have no number, because there is no room; nil: all have, or may get one
	heard   uint64   // the highest number to which another peer refers, if it is not known here; 0: all are
	looks   int      // how often it was looked for that
}

// Labels returns the label set that has a number; false if this peer knows of none.
func (d *Directory) Labels(number uint64) (map[string]string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return labelsOf(d.agreement.known.Sets, number)
}

func labelsOf(sets []identity.Set, number uint64) (map[string]string, bool) {
	i, there := slices.BinarySearchFunc(sets, number, func(s identity.Set, n uint64) int {
		switch {
		case s.Number < n:
			return -1
		case s.Number > n:
			return 1
		}
		return 0
	})
	if !there {
		return nil, false
	}
	return identity.Labels(sets[i].Text)
}

// Unidentified returns why containers of this peer have no identity: one has labels that are too long, or the cluster has
// no room for more label sets. It is nil where nothing is wrong.
func (d *Directory) Unidentified() (long, full error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.agreement.long, d.agreement.full
}

// wakeIdentities has the cluster be asked soon. It does not block.
func (d *Directory) wakeIdentities() {
	wake.Up(d.wanted)
}

// identify agrees on the numbers of label sets, until ctx ends. Nothing waits for it, neither the publisher nor a
// request: it learns what is known, asks for what is missing, and collects what nobody needs.
func (d *Directory) identify(ctx context.Context) {
	if d.cfg.Identities == nil {
		return
	}
	s := sweeper{Directory: d, swept: time.Now()}
	for ctx.Err() == nil {
		wait, err := s.agree(ctx)
		if err != nil {
			d.cfg.Logger.Debug("identities not up to date", logattr.Err(err))
			wait = askAgain
		}
		s.sweep(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-time.After(gather): // for what comes together
		}
		again := time.NewTimer(d.cfg.Pace.Round(wait))
		select {
		case <-ctx.Done():
		case <-d.wanted:
		case <-again.C:
		}
		again.Stop()
	}
}

// agree asks for numbers, some at a time, until all label sets of this peer have one or have been refused. It returns how
// long it may take until that is looked after again. Its error says why it was not possible.
func (s *sweeper) agree(ctx context.Context) (time.Duration, error) {
	var full error
	tried := map[string]bool{}
	for {
		missing, wait, err := s.learn(ctx)
		if err != nil {
			return 0, err
		}
		if len(s.asking) == 0 {
			missing = slices.DeleteFunc(missing, func(text string) bool { return tried[text] })
			s.asking = missing[:min(len(missing), askedAtOnce)]
		}
		if len(s.asking) == 0 {
			s.mu.Lock()
			s.agreement.full = full
			s.mu.Unlock()
			return wait, nil
		}
		err = s.cfg.Identities.Identify(ctx, ipam.IdentityRequest{Labels: s.asking})
		if err != nil && !errors.Is(err, ipam.ErrBadRequest) {
			return 0, err // what was asked is under way: the same is asked again, and nothing beside it
		}
		if err != nil {
			full = err
		}
		for _, text := range s.asking {
			tried[text] = true
		}
		s.asking = nil
	}
}

// maxLooks is how often it is looked for a number that another peer has, and that is not known here.
const maxLooks = 10

// learn notes which label sets have numbers, and returns those of this peer that have none, in order, and how long it may
// take until it is looked again.
func (d *Directory) learn(ctx context.Context) (missing []string, wait time.Duration, err error) {
	known, err := d.cfg.Identities.Identities(ctx)
	if err != nil {
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &d.agreement
	// Numbers only rise, and a set that goes makes them fewer.
	if known.Last != a.known.Last || len(known.Sets) != len(a.known.Sets) || d.cluster != a.cluster {
		a.known, a.cluster = known, d.cluster
		a.version++
		if d.rouse != nil {
			d.rouse()
		}
	}
	wait = lookEvery
	if a.looks++; a.heard <= known.Last || a.looks > maxLooks {
		a.heard, a.looks = 0, 0
	} else {
		wait = lookAgain
	}
	if len(a.missing) == 0 {
		return nil, wait, nil
	}
	has := make(map[string]bool, len(a.missing))
	for _, text := range a.missing {
		has[text] = false
	}
	for _, set := range known.Sets {
		if _, wanted := has[set.Text]; wanted {
			has[set.Text] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(a.missing), func(text string) bool { return has[text] }), wait, nil
}

// heardOf notes that another peer refers to the number of a label set: one that is not known here is learned soon. d.mu
// is held.
func (d *Directory) heardOf(key string, value []byte) {
	if d.cfg.Identities == nil || !strings.HasPrefix(key, d.uses) {
		return
	}
	a := &d.agreement
	if n, ok := numberIn(value); ok && n > max(a.known.Last, a.heard) {
		a.heard, a.looks = n, 0
		d.wakeIdentities()
	}
}

// identityPart is what stands before the number of a label set in a value.
const identityPart = `"identity":`

// numberIn returns the number of a label set that a value refers to. Within a text of JSON the part would have other
// quotes.
func numberIn(value []byte) (uint64, bool) {
	_, digits, there := bytes.Cut(value, []byte(identityPart))
	if !there {
		return 0, false
	}
	end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	n, err := strconv.ParseUint(string(digits[:end]), 10, 64)
	return n, err == nil
}

// sweeper is the goroutine that asks the cluster for numbers, and has it collect label sets to which no host refers any
// more.
type sweeper struct {
	*Directory
	asking []string // for which the cluster was asked, and has not answered; nil: there are none
	swept  time.Time
	unused map[uint64]bool // at the last sweep; nil: it was not this peer's to sweep
}

// sweep collects what no host refers to, now and at the last sweep. The first voter that can be reached does that. A set
// that is collected although a host needs it gets a new number there.
func (s *sweeper) sweep(ctx context.Context, now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	before := s.unused
	if s.unused = nil; !s.Voice() {
		return
	}
	s.unused = s.unreferred(now)
	var over []uint64
	for n := range s.unused {
		if before[n] {
			over = append(over, n)
		}
	}
	slices.Sort(over)
	for some := range slices.Chunk(over, collectedAtOnce) {
		if err := s.cfg.Identities.Identify(ctx, ipam.IdentityRequest{Collect: some}); err != nil {
			s.cfg.Logger.Debug("identities not collected", logattr.Err(err))
			return // with the next sweep
		}
		s.cfg.Logger.Info("identities collected, because no container has their labels any more", logattr.Count(len(some)))
	}
	if len(over) > 0 {
		s.wakeIdentities()
	}
}

// unreferred returns the numbers to which no host refers, neither by the key of the label set nor by that of an address.
func (s *sweeper) unreferred(now time.Time) map[uint64]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[string]bool{}
	for key := range s.replica.Keys(s.uses, now) {
		text := key[len(s.uses):]
		used[string(text[:max(bytes.LastIndexByte(text, '/'), 0)])] = true
	}
	out := map[uint64]bool{}
	for _, set := range s.agreement.known.Sets {
		if !used[set.Text] {
			out[set.Number] = true
		}
	}
	if len(out) == 0 {
		return out // as nearly always: there may be very many addresses
	}
	for value := range s.replica.Values(AddressKeys(s.cfg.Cluster), now) {
		if n, ok := numberIn(value); ok {
			delete(out, n)
		}
	}
	return out
}

// identified shows what is agreed, and says which label sets and numbers the containers of this peer have.
func (p *publisher) identified() {
	if p.cfg.Identities == nil {
		return
	}
	p.mu.Lock()
	known, version := p.agreement.known.Sets, p.agreement.version
	p.mu.Unlock()
	if version != p.identities || p.showAll {
		p.showIdentities(known)
		p.identities, p.showAll = version, false
		p.services.unsure = true
	}
	if !p.services.unsure {
		return
	}
	missing := p.services.number(known)
	long := p.services.longest()
	p.mu.Lock()
	news := len(missing) > 0 && !slices.Equal(missing, p.agreement.missing)
	p.agreement.missing, p.agreement.long = missing, long
	if len(missing) == 0 {
		p.agreement.full = nil
	}
	p.mu.Unlock()
	if news {
		p.wakeIdentities()
	}
	keys, values, changed := p.services.flushSets()
	for len(changed) > 0 {
		n := min(len(changed), writeAtOnce)
		p.mu.Lock()
		for _, e := range changed[:n] {
			p.identifyAddress(e, p.services.identityOf(e.Container))
		}
		p.settle()
		p.mu.Unlock()
		changed = changed[n:]
	}
	p.write(keys, values)
}

// identifyAddress says anew of an address which identity its container has. d.mu is held.
func (p *publisher) identifyAddress(e Endpoint, number uint64) {
	key := AddressKeys(p.cfg.Cluster) + e.Address.String()
	r, there := p.replica.Of(p.cfg.Self.ID, key, time.Now())
	var use Address
	if there && json.Unmarshal(r.Value, &use) == nil && use.Container == e.Container {
		use.Identity = number
		p.replica.Set(key, encode(use))
	}
}

// showIdentities shows the label sets that have numbers, in place of those that were shown. Both are in order.
func (p *publisher) showIdentities(known []identity.Set) {
	prefix := IdentityKeys(p.cfg.Cluster)
	key := func(s identity.Set) string { return prefix + strconv.FormatUint(s.Number, 10) }
	before := p.shown
	p.shown = known
	for len(before) > 0 || len(known) > 0 {
		p.mu.Lock()
		for range writeAtOnce { // before others may read
			switch {
			case len(known) > 0 && len(before) > 0 && known[0] == before[0]:
				known, before = known[1:], before[1:]
			case len(before) > 0 && (len(known) == 0 || before[0].Number <= known[0].Number):
				p.replica.RemoveAgreed(key(before[0]))
				before = before[1:]
			case len(known) > 0:
				labels, _ := identity.Labels(known[0].Text)
				p.replica.SetAgreed(key(known[0]), encode(LabelSet{labels}))
				known = known[1:]
			}
		}
		p.settle()
		p.mu.Unlock()
	}
}
