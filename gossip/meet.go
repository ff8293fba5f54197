package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// joinRequest asks to meet the hosts at some addresses.
type joinRequest struct {
	addrs []netip.AddrPort
	done  chan error // has room for one
}

// AddressError is returned by [Gossip.Meet] for what names no other host.
type AddressError struct{ text string }

// Error returns a sentence.
func (e *AddressError) Error() string { return e.text }

// Meet joins at a host that an operator names, as host or host:port, the port
// being that of Config.Bind if there is none, and returns who is alive there, or, if that is not known under this address,
// everybody who is alive. Unlike all other methods it waits, at most until ctx
// ends. An error says what to do. Whoever was met is looked for from then on as
// all peers are; the name is not kept.
func (g *Gossip) Meet(ctx context.Context, where string) ([]Presence, error) {
	s, err := parseSeed(where, cmp.Or(g.cfg.Bind.Port(), DefaultPort))
	if err != nil {
		return nil, &AddressError{err.Error() + ": name it as host, or as host:port"}
	}
	session := g.diagnostics.current()
	if session == nil {
		if p, shut := g.diagnostics.shut.problem(); shut {
			return nil, errors.New(sentence(p))
		}
		return nil, errors.New("the network of this host is just being opened: try again in a few seconds")
	}
	addrs, err := resolveHost(ctx, g.cfg.host.lookup, s.host, s.port)
	if err != nil {
		return nil, fmt.Errorf("%s does not resolve to an address: %w: check the name, and that the resolver of this host knows it", s.host, err)
	}
	session.readOwn()
	addrs = slices.DeleteFunc(addrs, session.listensAt)
	if len(addrs) == 0 {
		return nil, &AddressError{s.name + " is this host itself: name another one"}
	}
	e := joinRequest{addrs: addrs, done: make(chan error, 1)}
	select {
	case g.joinRequests <- e:
		select {
		case err = <-e.done:
		case <-ctx.Done():
			err = errSlow
		}
	case <-ctx.Done():
		err = errSlow
	}
	if err != nil {
		return nil, errors.New(sentence(problem(codeUnreached, "no host could be met at "+s.name+": ", err)))
	}
	return g.table.at(addrs), nil
}

var errSlow = adviceErrorf("check that the host is up, and open the port for TCP and UDP in its firewall", "it has not answered in time")

// sentence is a problem in one sentence.
func sentence(p Problem) string {
	return strings.Join(slices.DeleteFunc([]string{p.Text, p.Next}, isEmpty), ": ")
}

func isEmpty(s string) bool { return s == "" }

// meet joins where somebody wishes, one host after the other, until ctx ends.
func (s *session) meet(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.g.joinRequests:
			e.done <- s.joinAny(e.addrs)
		}
	}
}

// joinAny joins at all of these addresses, at most [maxJoins] at a time, and
// fails if none could be joined at.
func (s *session) joinAny(addrs []netip.AddrPort) error {
	errs := make([]error, len(addrs))
	room := make(chan struct{}, maxJoins)
	var joining sync.WaitGroup
	for i, addr := range addrs {
		room <- struct{}{}
		joining.Go(func() {
			errs[i] = s.join(addr)
			<-room
		})
	}
	joining.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	return errs[0]
}

// at returns who is alive at some addresses, or everybody who is alive if
// nobody is known by these, in order of their names.
func (t *table) at(addrs []netip.AddrPort) []Presence {
	living := t.living()
	slices.SortFunc(living, func(a, b Presence) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.ID.Compare(b.ID)) })
	there := slices.DeleteFunc(slices.Clone(living), func(p Presence) bool { return !slices.Contains(addrs, p.Addr) })
	if len(there) == 0 {
		return living
	}
	return there
}
