// Package page is the status page: what a browser shows of a peer, its cluster
// and its pools, as it changes. It is plain HTML, CSS and JavaScript modules,
// embedded as they are: there is no build step, and nothing is loaded from
// elsewhere. The page knows only the API of plugin/admin, like any other
// client, and writes nothing.
//
// It refuses to know anything behind the API of plugin/admin.
//
// The policy that [Handler] sends lets a browser run and load the files of this
// package alone, and talk to the server that it has them from; scripts and
// styles within the HTML are refused. What peers and containers are called
// reaches the page as text only.
//
// The files are tested in a real browser, see page_test.go.
package page

import (
	"embed"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed files
var files embed.FS

// Policy is the content security policy of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the media types of the files, which the host's own tables must not
// decide.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Paths returns the paths at which the page has files, in order, the page
// itself first.
func Paths() []string {
	list, err := files.ReadDir("files")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	out := []string{"/"}
	for _, f := range list {
		if f.Name() != "index.html" {
			out = append(out, "/page/"+f.Name())
		}
	}
	slices.Sort(out)
	return out
}

// Handler answers for the [Paths]. Browsers ask again each time whether a file
// is still the same, since a new version of the plugin has the same names.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/page/")
		if r.URL.Path == "/" {
			name = "index.html"
		}
		text, err := files.ReadFile("files/" + path.Base(name))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // in full: a file of some kilobytes has no parts
	})
}
