package admin

import (
	_ "embed" // for the document
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// route is one row of the API.
type route struct {
	method, path string
	tail         bool     // the last parameter of the path stands for all that is left of it
	call         string   // the name in metrics and logs
	query        []string // the parameters that it knows
	anyQuery     bool     // they are its own affair
	write        bool     // changes something, or costs the peer much
	// local says, over TCP, why a request with that body is answered on the admin
	// socket alone; empty: it is not. Nil: all go over TCP.
	local   func(body []byte) string
	instant bool // asks the Backend for no more than a snapshot, and so needs no place
	handle  handler
}

func (s *Server) routes() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		{method: get, path: "/v1/status", call: "status", instant: true, handle: s.status},
		{method: get, path: "/v1/peers", call: "peers", handle: s.peers},
		{method: get, path: "/v1/ring", call: "ring", query: []string{"pool"}, handle: s.ring},
		{method: get, path: "/v1/ring/table", call: "table", query: []string{"pool"}, handle: s.table},
		// Check walks through everything that the peer knows.
		{method: post, path: "/v1/check", call: "check", write: true, handle: s.check},
		{method: post, path: "/v1/gc", call: "gc", write: true, handle: s.collect},
		{method: post, path: "/v1/self/drain", call: "drain", write: true, handle: s.drain},
		{method: post, path: "/v1/self/leave", call: "leave", write: true, local: ifForced, handle: s.leave},
		{method: post, path: "/v1/self/rejoin", call: "rejoin", write: true, local: forGood("to rejoin"), handle: s.rejoin},
		{method: post, path: "/v1/self/trust", call: "trust", write: true, local: onHost("to trust a database that was moved can have addresses handed out twice"), handle: s.trust},
		{method: post, path: "/v1/peers", call: "join", write: true, handle: s.join},
		{method: post, path: "/v1/peers/{peer}/evict", call: "evict", write: true, handle: s.evict},
		{
			method: del, path: "/v1/peers/{peer}", call: "forget", query: []string{"dry_run"}, write: true,
			local: forGood("to forget a host"), handle: s.forget,
		},
		{method: post, path: "/v1/recover", call: "recover", write: true, local: forGood("to recover"), handle: s.recover},

		{method: get, path: "/v1/pools", call: "pools", handle: s.pools},
		{method: post, path: "/v1/pools", call: "pool-create", write: true, handle: s.createPool},
		{method: get, path: "/v1/pools/{pool}", call: "pool", handle: s.pool},
		{method: del, path: "/v1/pools/{pool}", call: "pool-remove", write: true, handle: s.removePool},

		{method: get, path: "/v1/pools/{pool}/addresses", call: "addresses", query: []string{"for", "all"}, handle: s.addresses},
		{method: post, path: "/v1/pools/{pool}/addresses", call: "alloc", write: true, handle: s.allocate},
		{method: del, path: "/v1/pools/{pool}/addresses", call: "free", query: []string{"for"}, write: true, handle: s.free},
		{method: del, path: "/v1/pools/{pool}/addresses/{ip}", call: "free", query: []string{"for"}, write: true, handle: s.free},

		{method: get, path: "/v1/addresses", call: "addresses", query: []string{"for", "all"}, handle: s.addresses},
		{method: post, path: "/v1/addresses", call: "alloc", write: true, handle: s.allocate},
		{method: del, path: "/v1/addresses", call: "free", query: []string{"for"}, write: true, handle: s.free},
		{method: get, path: "/v1/addresses/{ip}", call: "who", handle: s.who},
		{method: get, path: "/v1/addresses/{ip}/explain", call: "explain", handle: s.explain},
		{method: del, path: "/v1/addresses/{ip}", call: "free", query: []string{"for"}, write: true, handle: s.free},

		{method: get, path: "/v1/reservations", call: "reservations", query: []string{"pool"}, handle: s.reservations},
		{method: post, path: "/v1/reservations", call: "reserve", write: true, handle: s.reserve},
		{
			method: del, path: "/v1/reservations", call: "unreserve", query: []string{"addresses", "kind", "pool"},
			write: true, handle: s.unreserve,
		},

		{method: get, path: "/sd/prometheus", call: "discover", query: []string{"port", "containers"}, instant: true, handle: s.discover},
		{method: get, path: "/readyz", call: "readyz", instant: true, handle: s.ready},
	}
}

// forGood keeps on the admin socket what gives space up for good: a token that
// somebody has read must not do that.
func forGood(what string) func([]byte) string { return onHost(what + " gives addresses up for good") }

// onHost keeps something on the admin socket for a reason.
func onHost(why string) func([]byte) string {
	why += ", so it goes over the admin socket alone: run the command on the host itself"
	return func([]byte) string { return why }
}

// ifForced keeps on the admin socket that a host leaves although its addresses are in use.
func ifForced(body []byte) string {
	var l Leave
	if json.Unmarshal(body, &l) != nil || !l.Force { // what cannot be read is refused by the route
		return ""
	}
	return forGood("to leave by force")(nil)
}

// secret keeps on the admin socket what nobody may read on the way.
func secret(what string) func([]byte) string {
	return func([]byte) string {
		return what + " works only on the admin socket: on a TCP connection others could read it"
	}
}

// mux returns the API. What it does not know gets a [Problem] like any other
// error, also a known path with a wrong method.
func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	add := func(method, path string, h http.Handler) {
		mux.Handle(method+" "+path, h)
		methods[path] = append(methods[path], method)
		if method == http.MethodGet { // which also serves HEAD
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for _, r := range append(s.routes(), s.processRoutes()...) {
		add(r.method, r.path, s.serve(r))
	}
	if s.cfg.Locks != nil {
		for _, r := range s.lockRoutes() {
			add(r.method, r.path, s.serve(r))
		}
	}
	if s.cfg.Events != nil {
		r := s.eventsRoute()
		add(r.method, r.path, s.serve(r))
	}
	if s.cfg.Journal != nil {
		r := s.journalRoute()
		add(r.method, r.path, s.serve(r))
	}
	if s.cfg.Directory != nil {
		for _, r := range []route{s.kvRoute(), s.kvRemoveRoute()} {
			add(r.method, pattern(r), s.serve(r))
		}
	}
	// What asks whether the process lives must get an answer when all places are
	// taken.
	add(http.MethodGet, "/livez", http.HandlerFunc(live))
	add(http.MethodGet, "/openapi.json", http.HandlerFunc(openAPI))
	if s.cfg.Metrics != nil {
		r := s.metricsRoute()
		add(r.method, r.path, s.serve(r))
	}
	known := strings.Join(slices.Sorted(maps.Keys(methods)), ", ") // the API's own, which people may want
	if s.cfg.Page != nil {
		for _, path := range s.cfg.PagePaths {
			add(http.MethodGet, exact(path), s.cfg.Page)
		}
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		mux.Handle(path, s.wrongMethod(strings.Join(allowed, ", ")))
	}
	mux.Handle("/", s.refuse(problem(http.StatusNotFound, CodeNotFound,
		"there is nothing at this path; the paths are %s", known)))
	mux.Handle("/v1/pools/", s.refuse(problem(http.StatusNotFound, CodeNotFound,
		"there is nothing at this path; a pool's CIDR is one segment of it, with its slash escaped: 10.50.0.0%%2F24")))
	return mux
}

// pattern is that of a route's path.
func pattern(r route) string {
	if r.tail {
		return strings.TrimSuffix(r.path, "}") + "...}"
	}
	return r.path
}

// exact is the pattern of a path and of none below it.
func exact(path string) string {
	if strings.HasSuffix(path, "/") {
		return path + "{$}"
	}
	return path
}

func (s *Server) wrongMethod(allowed string) http.Handler {
	refuse := s.refuse(problem(http.StatusMethodNotAllowed, CodeMethod, "this path has the methods %s", allowed))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		refuse.ServeHTTP(w, r)
	})
}

// refuse answers every request with p.
func (s *Server) refuse(p *Problem) http.Handler {
	return s.respond("unknown", func(http.ResponseWriter, *http.Request, string, *holds) (answer, error) { return answer{}, p })
}

// document describes the API for programs (OpenAPI 3.1). It is written by
// hand; a test holds it against the routes, the types and what is answered.
//
//go:embed openapi.json
var document []byte

// openAPI answers with the document.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(document) // an error is the client's end
}
