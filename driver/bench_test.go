package driver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	remote "github.com/docker/go-plugins-helpers/ipam"

	"github.com/ringlet/ringlet/ipam"
)

// BenchmarkCall asks what a request costs of which the backend makes nothing,
// over a real socket as an engine has it, and how much of that is ours: the
// other half is net/http and encoding/json alone, without deadline, withdrawal
// and shutdown. We accept 15 us for these, a twentieth of a durable call.
func BenchmarkCall(b *testing.B) {
	b.Run("driver", func(b *testing.B) {
		_, path := start(b, Config{Backend: idle{}, Logger: slog.New(slog.DiscardHandler)})
		benchmarkCall(b, path)
	})
	b.Run("net-http", func(b *testing.B) {
		path := socketPath(b)
		l, err := Listen(path)
		if err != nil {
			b.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(bare)} // an engine's connections have no timeouts
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(l) }()
		b.Cleanup(func() { srv.Close(); <-ended })
		benchmarkCall(b, path)
	})
}

// benchmarkCall is one engine's client, which asks one thing after the other.
func benchmarkCall(b *testing.B, path string) {
	b.Helper()
	c := client(b, path)
	b.ReportAllocs()
	for b.Loop() {
		if answer := mustPost(b, c, callRequestAddress, claimBody); !strings.Contains(answer, `"10.1.0.9/16"`) {
			b.Fatal(answer)
		}
	}
}

// bare answers without looking.
func bare(w http.ResponseWriter, r *http.Request) {
	var q remote.RequestAddressRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(remote.RequestAddressResponse{Address: q.Address + "/16"}) // the client sees what is missing
}

// BenchmarkHandler asks what of that remains without socket and client.
func BenchmarkHandler(b *testing.B) {
	d := newDriver(b, Config{Backend: idle{}, Logger: slog.New(slog.DiscardHandler)})
	b.ReportAllocs()
	for b.Loop() {
		ask(b.Context(), d, callRequestAddress, claimBody)
	}
}

// idle grants what is asked for, and keeps nothing.
type idle struct{}

func (idle) RequestPool(context.Context, ipam.PoolRequest) (ipam.PoolGrant, error) {
	return ipam.PoolGrant{}, nil
}

func (idle) RequestAddress(_ context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	return ipam.AddressGrant{Address: netip.PrefixFrom(r.Address, r.Network.Pool.Bits())}, nil
}

func (idle) ReleasePool(context.Context, ipam.Network) error                { return nil }
func (idle) ReleaseAddress(context.Context, ipam.Network, netip.Addr) error { return nil }
func (idle) Withdraw(context.Context, ipam.Ticket) error                    { return nil }
func (idle) Greeted(context.Context)                                        {}
func (idle) Recheck()                                                       {}
