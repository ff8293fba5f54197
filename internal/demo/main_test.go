package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringlet/ringlet/internal/namespace"
)

func TestAddrs(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"addrs"}, &out); err != nil {
		t.Fatal(err)
	}
	var v view
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	for _, a := range v.Addresses {
		if a.Address.Addr().IsLoopback() || a.Address.Addr().IsLinkLocalUnicast() {
			t.Errorf("shows %v, which every container has", a)
		}
	}
}

// A container shows the routes that have a gateway.
func TestLook(t *testing.T) {
	namespace.Enter(t)
	for _, args := range [][]string{
		{"link", "add", "eth0", "type", "veth", "peer", "name", "eth1"},
		{"link", "set", "eth0", "up"},
		{"link", "set", "eth0", "address", "02:42:0a:4d:00:05"},
		{"address", "add", "10.77.0.5/24", "dev", "eth0"},
		{"route", "add", "default", "via", "10.77.0.1"},
		{"route", "add", "192.168.0.0/16", "via", "10.77.0.2"},
	} {
		namespace.IP(t, args...)
	}
	got, err := look()
	if err != nil {
		t.Fatal(err)
	}
	want := view{
		Addresses: []address{{"eth0", netip.MustParsePrefix("10.77.0.5/24"), "02:42:0a:4d:00:05"}},
		Routes: []route{
			{"eth0", netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.77.0.1")},
			{"eth0", netip.MustParsePrefix("192.168.0.0/16"), netip.MustParseAddr("10.77.0.2")},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nil, &bytes.Buffer{}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"dance"}, {"ping"}, {"ping", "there"}, {"ping", "::1", "-c", "0"}, {"ping", "::1", "-x"}, {"ping", "::1", "more"}, {"watch"}, {"watch", "::1", "-e", "0s"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want the usage", args, err)
		}
	}
}

func TestPingLoopback(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: a raw socket needs root")
	}
	for _, to := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::1"} {
		var out bytes.Buffer
		if err := ping(t.Context(), netip.MustParseAddr(to), 2, 10*time.Second, &out); err != nil {
			if to == "::1" {
				t.Logf("no IPv6 on this machine: %v", err)
				continue
			}
			t.Errorf("%s: %v", to, err)
		}
		if got := strings.Count(out.String(), "answer from"); got != 2 {
			t.Errorf("%s: got %d answers, want 2", to, got)
		}
	}
}

func TestPingNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: a raw socket needs root")
	}
	// 198.51.100.0/24 is for documentation (RFC 5737): nobody answers, or there is no route.
	if err := ping(t.Context(), netip.MustParseAddr("198.51.100.1"), 1, 50*time.Millisecond, &bytes.Buffer{}); err == nil {
		t.Error("got an answer from an address that nobody has")
	}
}

// It ends with its context, or with who reads.
func TestWatch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: a raw socket needs root")
	}
	r, w := io.Pipe()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- watch(t.Context(), netip.MustParseAddr("127.0.0.1"), time.Millisecond, w) }()
	lines := bufio.NewScanner(r)
	for range 3 {
		lines.Scan()
		if at, err := time.Parse(time.RFC3339Nano, lines.Text()); err != nil || at.Before(began) {
			t.Errorf("got the answer %q, %v", lines.Text(), err)
		}
	}
	r.Close()
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ended with %v after its reader", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := watch(ctx, netip.MustParseAddr("127.0.0.1"), time.Millisecond, io.Discard); err != nil {
		t.Errorf("ended with %v after its context", err)
	}
}
