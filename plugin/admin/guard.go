package admin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A browser runs pages of strangers beside those of this server, and sends what they
// ask for from where the browser is. What a page could misuse is refused here.

// admit lets a request of a stranger begin when its turn comes, and refuses what a
// page of another site has made a browser send.
func (s *Server) admit(next http.Handler) http.Handler {
	if !s.cfg.Remote {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.crowd.begin(r.Context()) != nil {
			return // the client has gone
		}
		if p := s.misused(r); p != nil {
			s.refuse(p).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// misused returns why a request is refused before it is looked at; nil if it is not.
//
// A name that is not of this host may be one that its owner has made to stand for
// this host's address, so that a browser takes what is here for a part of the owner's
// site. Clients that send no name are no browsers.
//
// A person may follow a link from another site to the page here: what that site cannot
// read, and cannot show in a frame.
func (s *Server) misused(r *http.Request) *Problem {
	if name := hostOf(r.Host); name != "" && !s.isCalled(name) {
		return problem(http.StatusMisdirectedRequest, CodeMisdirected,
			"this server is not known as %q: ask it by its IP address, or add the name to RINGLET_HTTP_HOSTS", name[:min(len(name), 255)])
	}
	h := r.Header
	link := r.Method == http.MethodGet && h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
	origin := h.Get("Origin")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if h.Get("Sec-Fetch-Site") == "cross-site" && !link || !reads && origin != "" && !isOrigin(origin, r.Host) {
		return problem(http.StatusForbidden, CodeCrossSite, "a page of another site has made a browser send this request: open the status page of this server itself")
	}
	return nil
}

// isCalled reports whether a host goes by a name: any address, which nobody can make
// stand for another, this one's names, and those that an operator has named.
func (s *Server) isCalled(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.ContainsFunc(s.cfg.Hosts, func(own string) bool { return strings.EqualFold(name, own) })
}

// hostOf returns the name or the address in a Host header, in lower case.
func hostOf(header string) string {
	name, _, err := net.SplitHostPort(header)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// isOrigin reports whether an Origin header is of the server that is asked.
func isOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
