package page_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// A site whose name stands for its own server at first, and for this host later, gets
// nothing of the API: its page is of the same origin for the browser, and the server
// refuses the name.
func TestNameThatIsMadeToStandForThisHost(t *testing.T) {
	// The site has the port of the API at another address of this host.
	api := serve(t, sceneOf(1))
	_, port, err := net.SplitHostPort(strings.TrimPrefix(api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", port))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var names []string // by which the API was asked
	site := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, r.Host)
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<!doctype html><title>site</title><link rel="icon" href="data:,"><p>site`)
	})}}
	site.Start()
	defer site.Close()

	// The name of the site stands for it, the other one already for this host: a browser
	// keeps what it has looked up for as long as it likes, so there is a name for each time.
	b := openWith(t, chromedp.Flag("host-resolver-rules", "MAP before.example 127.0.0.2, MAP after.example 127.0.0.1"))
	b.do("opening the site", chromedp.Navigate("http://before.example:"+port+"/"))
	b.until(`document.title === "site"`)
	ask := func(url string) string {
		t.Helper()
		b.do("asking "+url, run(fmt.Sprintf(`window.got = ""; fetch(%q, {cache: "no-store"}).then(r => r.text().then(text => { window.got = r.status + " " + text }), e => { window.got = "failed: " + e })`, url)))
		b.until(`window.got !== ""`)
		return value[string](b, "window.got")
	}
	if got := ask("/"); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "site") {
		t.Fatalf("the site itself: %.200s", got)
	}
	// From the page of the site: another origin, and nothing can be read.
	for _, host := range []string{"127.0.0.1", "localhost", "after.example"} {
		if got := ask("http://" + host + ":" + port + "/v1/status"); !strings.HasPrefix(got, "failed: ") {
			t.Errorf("the site reads %s: %.200s", host, got)
		}
	}
	b.excuse() // of requests that failed

	// The name stands for this host now: what is there is of the site's origin.
	b.do("opening the name", chromedp.Navigate("http://after.example:"+port+"/"))
	b.until(`document.body.innerText.includes("misdirected")`)
	for _, path := range []string{"/v1/status", "/v1/addresses", "/metrics", "/v1/events?follow=false", "/livez"} {
		if got := ask(path); !strings.HasPrefix(got, "421 ") || !strings.Contains(got, "RINGLET_HTTP_HOSTS") || strings.Contains(got, "host-a") {
			t.Errorf("%s by the site's name: %.300s", path, got)
		}
	}
	b.excuse()
	mu.Lock()
	defer mu.Unlock()
	if len(names) == 0 || names[0] != "before.example:"+port {
		t.Errorf("the site was asked as %q", names)
	}
}
