package driver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

func TestNewNamesAllProblems(t *testing.T) {
	_, err := New(Config{Timeout: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"needs a backend", "needs a logger", "must not be negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestRoutes(t *testing.T) {
	d, path := start(t, Config{Backend: &fake{}})
	c := client(t, path)
	for _, tt := range []struct {
		verb, path string
		status     int
		answer     string
	}{
		{http.MethodPost, "/Plugin.Activate", http.StatusOK, `{"Implements": ["IpamDriver"]}` + "\n"},
		{http.MethodPost, "/IpamDriver.GetCapabilities", http.StatusOK, `{"RequiresMACAddress":true,"RequiresRequestReplay":true}` + "\n"},
		{http.MethodPost, "/IpamDriver.Forecast", http.StatusNotFound, "ringlet does not have this call\n"},
		{http.MethodPost, "/NetworkDriver.GetCapabilities", http.StatusNotFound, "ringlet does not have this call\n"},
		{http.MethodGet, "/IpamDriver.ReleasePool", http.StatusNotFound, "ringlet does not have this call\n"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.verb, "http://plugin.moby.localhost"+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := w.Write(&b); err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != tt.status || !strings.HasSuffix(b.String(), "\r\n\r\n"+tt.answer) {
			t.Errorf("%s %s: %s", tt.verb, tt.path, b.String())
		}
	}
	if got := d.Stats().Calls[callCapabilities]; got != 1 {
		t.Errorf("%d calls counted, want 1", got)
	}
}

// TestNetworksInParallel holds one network's request while another network's
// is answered, over connections of several clients.
func TestNetworksInParallel(t *testing.T) {
	asked, free := make(chan struct{}), make(chan struct{})
	backend := &fake{}
	backend.requestAddress = func(_ context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
		if r.Network.Pool == prefix("10.1.0.0/16") {
			close(asked)
			<-free
		}
		return backend.grant(r), nil
	}
	_, path := start(t, Config{Backend: backend})
	legacy, managed := client(t, path), client(t, path)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, answer, err := post(t.Context(), legacy, "IpamDriver."+callRequestAddress, containerBody); err != nil || !strings.Contains(answer, `"Address":"10.1.`) {
			t.Errorf("answered %s: %v", answer, err)
		}
	})
	<-asked
	other := strings.Replace(containerBody, "10.1.0.0", "10.2.0.0", 1)
	for _, c := range []interface{ CloseIdleConnections() }{legacy, managed} {
		if answer := mustPost(t, c.(*http.Client), callRequestAddress, other); !strings.Contains(answer, `"Address":"10.2.`) {
			t.Errorf("answered %s", answer)
		}
	}
	close(free)
	wg.Wait()
}

// TestNoTimeoutsOnConnections: closing a connection on which an engine writes
// makes it repeat the request without a body (T5).
func TestNoTimeoutsOnConnections(t *testing.T) {
	var got *http.Server
	backend := &fake{greeted: func(ctx context.Context) { got, _ = ctx.Value(http.ServerContextKey).(*http.Server) }}
	_, path := start(t, Config{Backend: backend})
	mustPost(t, client(t, path), callCapabilities, "")
	if got == nil {
		t.Fatal("the server is not in the context: it could not be shut down")
	}
	type timeouts struct{ Read, ReadHeader, Write, Idle time.Duration }
	if d := cmp.Diff(timeouts{}, timeouts{got.ReadTimeout, got.ReadHeaderTimeout, got.WriteTimeout, got.IdleTimeout}); d != "" {
		t.Errorf("timeouts (-want +got):\n%s", d)
	}
}

// TestShutdownLetsRequestsFinish ends the driver while a request is served.
func TestShutdownLetsRequestsFinish(t *testing.T) {
	asked, free := make(chan struct{}), make(chan struct{})
	backend := &fake{}
	backend.requestAddress = func(_ context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
		close(asked)
		<-free
		return backend.grant(r), nil
	}
	d, path := newDriver(t, Config{Backend: backend, Grace: time.Minute}), socketPath(t)
	stop := serveOn(t, d, path)
	answers := make(chan string, 1)
	c := client(t, path)
	go func() {
		_, answer, err := post(context.Background(), c, "IpamDriver."+callRequestAddress, containerBody)
		if err != nil {
			answer = err.Error()
		}
		answers <- answer
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until nobody new is served
		conn, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(free)
	if got := <-answers; !strings.Contains(got, `"Address":"10.1.`) {
		t.Errorf("answered %s", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestShutdownAnswersWhoeverWaits ends the driver while a request waits for
// what does not come.
func TestShutdownAnswersWhoeverWaits(t *testing.T) {
	asked := make(chan struct{})
	backend := &fake{requestAddress: func(ctx context.Context, _ ipam.AddressRequest) (ipam.AddressGrant, error) {
		close(asked)
		<-ctx.Done()
		return ipam.AddressGrant{}, ctx.Err()
	}}
	d, path := newDriver(t, Config{Backend: backend, Grace: time.Millisecond}), socketPath(t)
	stop := serveOn(t, d, path)
	answers := make(chan string, 1)
	c := client(t, path)
	go func() {
		_, answer, err := post(context.Background(), c, "IpamDriver."+callRequestAddress, containerBody)
		if err != nil {
			answer = err.Error()
		}
		answers <- answer
	}()
	<-asked
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got, want := <-answers, `{"Error":"`+errStopping.Text+`"}`+"\n"; got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
}

// TestServeEndsWithItsListener, and says so.
func TestServeEndsWithItsListener(t *testing.T) {
	d := newDriver(t, Config{Backend: &fake{}})
	l, err := Listen(socketPath(t))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := d.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want one that wraps %v", err, net.ErrClosed)
	}
}

// TestServeTwice serves two sockets with one driver, and ends one.
func TestServeTwice(t *testing.T) {
	d, path := start(t, Config{Backend: &fake{}})
	other := socketPath(t)
	stop := serveOn(t, d, other)
	mustPost(t, client(t, other), callReleasePool, removeBody)
	if err := stop(); err != nil {
		t.Error(err)
	}
	mustPost(t, client(t, path), callReleasePool, removeBody)
	if got := d.Stats().Calls[callReleasePool]; got != 2 {
		t.Errorf("%d calls counted, want 2", got)
	}
}

// TestAfterTheAnswer has everything fail that comes behind it: the connection
// must live on.
func TestAfterTheAnswer(t *testing.T) {
	d, path := start(t, Config{Backend: &fake{}, Observe: func(string, string, time.Duration) { panic("full") }})
	var conns atomic.Int32
	c := client(t, path)
	dial := c.Transport.(*http.Transport).DialContext
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns.Add(1)
		return dial(ctx, network, addr)
	}
	for range 3 {
		if got := mustPost(t, c, callReleasePool, removeBody); got != "{}\n" {
			t.Errorf("answered %s", got)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for 3 requests, want 1", n)
	}
	if got := d.Stats().Panics; got == 0 {
		t.Error("no panic counted")
	}
}
