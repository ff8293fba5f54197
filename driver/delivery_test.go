package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

// ask has a driver answer without a socket.
func ask(ctx context.Context, d *Driver, method, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, request(ctx, method, body))
	return w
}

func request(ctx context.Context, method, body string) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodPost, "/IpamDriver."+method, strings.NewReader(body))
}

// TestEngineGone closes the connection while the backend is at work (T13a): the
// very grant that it makes nevertheless is withdrawn.
func TestEngineGone(t *testing.T) {
	var log lines
	asked, withdrawn := make(chan struct{}), make(chan ipam.Ticket, 1)
	backend := &fake{}
	backend.requestAddress = func(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
		close(asked)
		<-ctx.Done()
		return backend.grant(r), nil
	}
	backend.withdraw = func(ctx context.Context, ticket ipam.Ticket) error {
		withdrawn <- ticket
		return ctx.Err() // its own time, not that of the request
	}
	d, path := newDriver(t, Config{Backend: backend, Logger: log.logger()}), socketPath(t)
	stop := serveOn(t, d, path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /IpamDriver.RequestAddress HTTP/1.1\r\nHost:\r\nContent-Length: %d\r\n\r\n%s", len(containerBody), containerBody)
	<-asked
	conn.Close()
	if got, want := <-withdrawn, (ipam.Ticket{Serial: 1}); got != want {
		t.Errorf("withdrawn %+v, want %+v", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := d.Stats().Withdrawn; got != 1 {
		t.Errorf("%d counted as withdrawn, want 1", got)
	}
	if !backend.has("Recheck") {
		t.Error("no look at the engine's containers")
	}
	if got := log.String(); !strings.Contains(got, `"answer not delivered"`) || strings.Contains(got, "not taken back") {
		t.Errorf("logged:\n%s", got)
	}
}

// deaf is a connection that breaks when the answer is written or sent.
type deaf struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.write != nil {
		return 0, d.write
	}
	return d.ResponseRecorder.Write(b)
}

func (d *deaf) FlushError() error { return d.flush }

func TestUndelivered(t *testing.T) {
	broken := errors.New("broken pipe")
	address := func(rest ...string) []string {
		return append([]string{`RequestAddress ringlet1/local/10.1.0.0/16 addr=invalid IP purpose=container name="" mac=02:42:ea:1d:54:f0`}, rest...)
	}
	tests := []struct {
		name         string
		method, body string
		backend      *fake
		deaf         deaf
		gone         bool // the request's context has ended
		want         []string
	}{
		{name: "write fails", method: callRequestAddress, body: containerBody, deaf: deaf{write: broken}, want: address("Withdraw 1", "Recheck")},
		{name: "send fails", method: callRequestAddress, body: containerBody, deaf: deaf{flush: broken}, want: address("Withdraw 1", "Recheck")},
		{name: "gone before", method: callRequestAddress, body: containerBody, gone: true, want: address("Withdraw 1", "Recheck")},
		{
			name: "held before", method: callRequestAddress, body: containerBody, deaf: deaf{flush: broken},
			backend: &fake{requestAddress: func(context.Context, ipam.AddressRequest) (ipam.AddressGrant, error) {
				return ipam.AddressGrant{Address: prefix("10.1.0.9/16")}, nil
			}},
			want: address("Recheck"),
		},
		{
			name: "withdrawal fails", method: callRequestAddress, body: containerBody, deaf: deaf{flush: broken},
			backend: &fake{withdraw: func(context.Context, ipam.Ticket) error { return errors.New("disk full") }},
			want:    address("Withdraw 1", "Recheck"),
		},
		{
			name: "withdrawal panics", method: callRequestAddress, body: containerBody, deaf: deaf{flush: broken},
			backend: &fake{withdraw: func(context.Context, ipam.Ticket) error { panic("no disk") }},
			want:    address("Withdraw 1", "Recheck"),
		},
		{
			name: "chosen pool is given back", method: callRequestPool, body: chosenBody, deaf: deaf{flush: broken},
			want: []string{
				"RequestPool {Space:local Pool:invalid Prefix Range:invalid Prefix V6:false Gateway:host GatewayAddr:invalid IP Sticky:name PoolName: Bits:0 Probe:none Subnet:invalid Prefix}",
				"ReleasePool ringlet1/local/10.32.1.0/24", "Recheck",
			},
		},
		{
			name: "named pool may be a living network's", method: callRequestPool, body: subnetBody, deaf: deaf{flush: broken},
			want: []string{
				"RequestPool {Space:local Pool:10.1.0.0/16 Range:invalid Prefix V6:false Gateway:host GatewayAddr:invalid IP Sticky:name PoolName: Bits:0 Probe:none Subnet:invalid Prefix}",
				"Recheck",
			},
		},
		{
			name: "release", method: callReleaseAddress, body: stopBody, deaf: deaf{flush: broken},
			want: []string{"ReleaseAddress ringlet1/local/10.1.0.0/16 addr=10.1.0.9", "Recheck"},
		},
		{
			name: "connection that cannot flush", method: callRequestAddress, body: containerBody, deaf: deaf{flush: http.ErrNotSupported},
			want: address(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			backend := tt.backend
			if backend == nil {
				backend = &fake{}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.gone {
				cancel()
			}
			d := newDriver(t, Config{Backend: backend})
			tt.deaf.ResponseRecorder = httptest.NewRecorder()
			d.Handler().ServeHTTP(&tt.deaf, request(ctx, tt.method, tt.body))
			if d := cmp.Diff(tt.want, backend.take()); d != "" {
				t.Errorf("asked (-want +got):\n%s", d)
			}
		})
	}
}

// TestReleaseAlwaysSucceeds has the backend fail in all ways.
func TestReleaseAlwaysSucceeds(t *testing.T) {
	failures := map[string]func(context.Context) error{
		"error":    func(context.Context) error { return errors.New("disk full") },
		"sentence": func(context.Context) error { return &ipam.Error{Kind: ipam.ErrStopped, Text: "stopped"} },
		"panic":    func(context.Context) error { panic("no disk") },
		"too late": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}
	for name, failure := range failures {
		for method, body := range map[string]string{callReleaseAddress: stopBody, callReleasePool: removeBody} {
			t.Run(name+"/"+method, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					var log lines
					backend := &fake{release: failure}
					d := newDriver(t, Config{Backend: backend, Logger: log.logger()})
					if got := ask(t.Context(), d, method, body).Body.String(); got != "{}\n" {
						t.Errorf("answered %s", got)
					}
					if !backend.has("Recheck") {
						t.Error("no look at the engine's containers")
					}
					if !strings.Contains(log.String(), "request failed") {
						t.Errorf("logged:\n%s", log.String())
					}
				})
			})
		}
	}
}

// TestCapabilitiesWhateverHappens: without them the engine replays nothing for
// the rest of its life (T22).
func TestCapabilitiesWhateverHappens(t *testing.T) {
	for name, greeted := range map[string]func(context.Context){
		"panics": func(context.Context) { panic("not at home") },
		"waits":  func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := newDriver(t, Config{Backend: &fake{greeted: greeted}})
				want := `{"RequiresMACAddress":true,"RequiresRequestReplay":true}` + "\n"
				if got := ask(t.Context(), d, callCapabilities, "").Body.String(); got != want {
					t.Errorf("got %s want %s", got, want)
				}
			})
		})
	}
}

// TestBodyCutOff breaks off the body, or the connection with it.
func TestBodyCutOff(t *testing.T) {
	backend := &fake{}
	d := newDriver(t, Config{Backend: backend})
	r := request(t.Context(), callReleaseAddress, "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"PoolID":`), iotestErr{}))
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	if got := w.Body.String(); !strings.Contains(got, errCutOff.Error()) {
		t.Errorf("answered %s", got)
	}
	if !backend.has("Recheck") {
		t.Error("no look at the engine's containers")
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
