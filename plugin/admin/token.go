package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// freeGuesses is how many wrong tokens a source may send before it has to wait,
	// for a second at first, twice as long after each further one, and longestWait
	// at most.
	freeGuesses = 3
	longestWait = time.Minute
	// forgetAfter is how long a source is remembered after its last wrong token, and
	// maxSources how many sources are.
	forgetAfter = 10 * time.Minute
	maxSources  = 1024
)

// guesses counts wrong tokens by source, see [sourceOf]. A source that sends many
// has to wait, and no other has. It is safe for concurrent use.
type guesses struct {
	mu  sync.Mutex
	all map[netip.Addr]guess
}

// guess is what is known of a source.
type guess struct {
	wrong int       // tokens in a row
	last  time.Time // of them
}

// until is when the source may try again.
func (g guess) until() time.Time {
	if g.wrong < freeGuesses {
		return time.Time{}
	}
	return g.last.Add(min(time.Second<<min(g.wrong-freeGuesses, 10), longestWait))
}

// wait returns how long a source has to wait before its token is looked at.
func (g *guesses) wait(source netip.Addr) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(time.Until(g.all[source].until()), 0)
}

// right forgets what a source has sent before.
func (g *guesses) right(source netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, source)
}

// wrong counts a wrong token. Where there is no room, the source that has been quiet
// for longest is forgotten.
func (g *guesses) wrong(source netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	known, ok := g.all[source]
	if now.Sub(known.last) > forgetAfter {
		known.wrong = 0
	}
	if !ok && len(g.all) >= maxSources {
		var oldest netip.Addr
		first := true
		for a, other := range g.all {
			if first || other.last.Before(g.all[oldest].last) {
				oldest, first = a, false
			}
		}
		delete(g.all, oldest)
	}
	g.all[source] = guess{known.wrong + 1, now}
}

// mayWrite reports why the caller may not change anything.
func (s *Server) mayWrite(w http.ResponseWriter, r *http.Request) error {
	if !s.cfg.Remote {
		return nil
	}
	if s.cfg.Token == "" {
		return problem(http.StatusForbidden, CodeReadOnly,
			"this address only answers questions: use the admin socket, or set RINGLET_TOKEN to allow changes with a token")
	}
	unauthorized := problem(http.StatusUnauthorized, CodeUnauthorized,
		"changes need the value of RINGLET_TOKEN as bearer token, but the request had none or another one")
	const challenge = `Bearer realm="ringlet"`
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", challenge)
		return unauthorized // which is no guess
	}
	source := sourceOf(r.RemoteAddr)
	if wait := s.guesses.wait(source); wait > 0 {
		seconds := int(wait/time.Second) + 1
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		return problem(http.StatusTooManyRequests, CodeTooManyGuesses, "too many wrong tokens came from %v: try again in %d seconds", source, seconds)
	}
	// Hashes have the same length, so that the comparison tells nothing.
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.Token))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		s.guesses.wrong(source)
		w.Header().Set("WWW-Authenticate", challenge)
		return unauthorized
	}
	s.guesses.right(source)
	return nil
}
