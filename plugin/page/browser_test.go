package page_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/page"
)

// patience is how long a browser may take for one step on a busy machine.
const patience = 60 * time.Second

// serve answers for the scene until the test ends, when the browser has left
// the page, and returns its address.
func (b *browser) serve(s *scene) string {
	b.t.Helper()
	address := serve(b.t, s)
	b.t.Cleanup(func() { b.do("leaving the page", chromedp.Navigate("about:blank")) })
	return address
}

// serve answers for the scene as the plugin does on RINGLET_HTTP, and returns
// its address.
func serve(t *testing.T, s *scene) string {
	t.Helper()
	api, err := admin.New(admin.Config{
		Backend: s, Directory: labelled{s: s}, Logger: slog.New(slog.DiscardHandler), Remote: true,
		Events: s.log, Page: page.Handler(), PagePaths: page.Paths(),
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = api.Serve(ctx, l) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// browser is a Chromium of the test's own.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // of scripts, styles and the policy
}

// open starts a Chromium, or skips the test where there is none. What the
// page does wrong there fails the test at its end.
func open(t *testing.T) *browser {
	t.Helper()
	return openWith(t)
}

// openWith starts one with more flags.
func openWith(t *testing.T, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short no browser is started: what is tested runs in it, not here")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed: the page is not tested in a browser (Debian's package is chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("lang", "en-GB"), chromedp.Flag("force-prefers-reduced-motion", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	b.do("listening to the browser", command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaints {
			t.Errorf("the browser says: %s", c)
		}
	})
	return b
}

func (b *browser) listen(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprintf("%s:%d %s %+v", ev.ExceptionDetails.URL, ev.ExceptionDetails.LineNumber, ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelError || ev.Entry.Level == log.EntryLevelWarning {
			b.complaints = append(b.complaints, string(ev.Entry.Source)+": "+ev.Entry.Text+" "+ev.Entry.URL)
		}
	}
}

// excuse drops what the browser said so far: it was to be expected.
func (b *browser) excuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = nil
}

// step is one thing that a browser does.
type step = chromedp.Action[chromedp.Void]

// command is a command of the browser's protocol, whose answer does not matter.
func command[P, R any](cmd cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, cmd, params)
		return err
	})
}

// do runs steps, and fails the test if they do not come to an end.
func (b *browser) do(what string, steps ...step) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// look sets the window and the colours that the user prefers.
func look(width, height int64, scheme string) step {
	return chromedp.Steps(
		chromedp.EmulateViewport(width, height),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}),
		command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Etc/UTC"}),
	)
}

// until waits for an expression of the page to become true.
func (b *browser) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		switch {
		case err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "context was destroyed"): // it is loading another page
		case err != nil:
			b.t.Fatalf("waiting for %s: %v; the page shows %s", expression, err, b.all())
		case ok:
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s does not come true; the page shows %s", expression, b.all())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// all is the text of the whole page, for the message of a failed test.
func (b *browser) all() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	return text
}

// value is that of an expression of the page.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// text is the text of an element as a person sees it.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// drawn is true once the page has shown everything for the first time.
const drawn = `document.querySelectorAll("#ring .arc").length > 0 && document.querySelectorAll("#events .event").length > 0`

// visit opens the page of a scene, with its pool lab, in a window of that
// width and waits until it is drawn.
func (b *browser) visit(address string, width int64, scheme string) {
	b.t.Helper()
	b.do("opening the page", look(width, 900, scheme), chromedp.Navigate("about:blank"), chromedp.Navigate(address+"/#10.50.0.0/24"))
	b.until(drawn)
}

// get is a plain client's request.
func get(t *testing.T, url string) (status int, header http.Header, text string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// picture is the whole page as PNG.
func (b *browser) picture() []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}

// run has the page run a script whose value does not matter.
func run(script string) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(() => {"+script+"; return true})()"))
		return err
	})
}

// window is what the window shows, as PNG.
func (b *browser) window() []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}
