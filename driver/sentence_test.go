package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// TestSentences keeps one file for each sentence that does not come of the
// request alone, as its user reads it, and checks what else is done about it.
func TestSentences(t *testing.T) {
	pool := func(cidr string) *fake {
		return &fake{requestPool: func(_ context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
			return ipam.PoolGrant{Network: networkOf(r, prefix(cidr))}, nil
		}}
	}
	address := func(cidr string) *fake {
		return &fake{requestAddress: func(context.Context, ipam.AddressRequest) (ipam.AddressGrant, error) {
			return ipam.AddressGrant{Address: prefix(cidr), Ticket: ipam.Ticket{Serial: 7}}, nil
		}}
	}
	fails := func(err error) *fake {
		return &fake{requestAddress: func(context.Context, ipam.AddressRequest) (ipam.AddressGrant, error) { return ipam.AddressGrant{}, err }}
	}
	waits := &fake{
		requestPool: func(ctx context.Context, _ ipam.PoolRequest) (ipam.PoolGrant, error) {
			<-ctx.Done()
			return ipam.PoolGrant{}, context.Cause(ctx)
		},
		requestAddress: func(ctx context.Context, _ ipam.AddressRequest) (ipam.AddressGrant, error) {
			<-ctx.Done()
			return ipam.AddressGrant{}, fmt.Errorf("ask the peers: %w", ctx.Err())
		},
	}
	options := func(pairs string) string { return strings.Replace(chosenBody, "{}", pairs, 1) }

	tests := []struct {
		name, method, body string
		backend            *fake
		result             string
		done               string // what is done about it, beside the request itself
	}{
		{"late_subnet", callRequestPool, subnetBody, waits, "not-ready", "Recheck"},
		{"late_chosen_subnet", callRequestPool, chosenBody, waits, "not-ready", "Recheck"},
		{"late_address", callRequestAddress, containerBody, waits, "not-ready", "Recheck"},
		{"late_wanted_address", callRequestAddress, claimBody, waits, "not-ready", "Recheck"},
		{"internal", callRequestAddress, containerBody, fails(errors.New("allocate: ipam: machine: exhausted")), "internal", "Recheck"},
		{"panic", callRequestAddress, containerBody, &fake{requestAddress: func(context.Context, ipam.AddressRequest) (ipam.AddressGrant, error) {
			panic("index out of range [3] with length 3")
		}}, "panic", "Recheck"},
		{"in_use", callRequestAddress, claimBody, fails(fmt.Errorf("node: %w", &ipam.Error{
			Kind: ipam.ErrAddressInUse,
			Text: "address 10.1.0.9 in 10.1.0.0/16 (\"lab\") is held by container wéb-1 on host-a:\nstop that container first",
		})), "address-in-use", ""},
		{"long", callRequestAddress, containerBody, fails(&ipam.Error{Kind: ipam.ErrBadRequest, Text: strings.Repeat("much ado ", 10_000)}), "bad-request", ""},
		{"body_too_long", callRequestPool, options(`{"pool":"` + strings.Repeat("x", DefaultMaxBody) + `"}`), &fake{}, "bad-request", ""},
		{"option_too_long", callRequestPool, options(`{"` + strings.Repeat("é", 10_000) + `":"1"}`), &fake{}, "bad-request", ""},
		// Engines take any answer (T18), so these are ours to refuse.
		{"pool_other_subnet", callRequestPool, subnetBody, pool("10.2.0.0/16"), "internal", "Recheck"},
		{"pool_other_range", callRequestPool, strings.Replace(subnetBody, `"SubPool":""`, `"SubPool":"10.1.2.0/24"`, 1), &fake{
			requestPool: func(_ context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
				r.Range = prefix("10.1.3.0/24")
				return ipam.PoolGrant{Network: networkOf(r, r.Pool)}, nil
			},
		}, "internal", "Recheck"},
		{"pool_other_gateway", callRequestPool, subnetBody, &fake{
			requestPool: func(_ context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
				return ipam.PoolGrant{Network: networkOf(r, r.Pool), Gateway: prefix("10.2.0.1/16")}, nil
			},
		}, "internal", "Recheck"},
		{"pool_other_family", callRequestPool, chosenBody, pool("fd00::/64"), "internal", "ReleasePool ringlet1/local/fd00::/64, Recheck"},
		{"pool_named_other_family", callRequestPool, options(`{"pool":"lab"}`), pool("fd00::/64"), "bad-request", "ReleasePool ringlet1/local/fd00::/64;pool=lab"},
		{"pool_other_size", callRequestPool, options(`{"size":"26"}`), pool("10.2.0.0/24"), "internal", "ReleasePool ringlet1/local/10.2.0.0/24, Recheck"},
		{"pool_named_other_size", callRequestPool, options(`{"pool":"lab","size":"26"}`), pool("10.2.0.0/24"), "bad-request", "ReleasePool ringlet1/local/10.2.0.0/24;pool=lab"},
		{"address_other_mask", callRequestAddress, containerBody, address("10.1.0.9/32"), "internal", "Withdraw 7, Recheck"},
		{"address_other_subnet", callRequestAddress, containerBody, address("10.2.0.9/16"), "internal", "Withdraw 7, Recheck"},
		{"address_other_family", callRequestAddress, containerBody, address("fd00::9/16"), "internal", "Withdraw 7, Recheck"},
		{"address_not_the_wanted", callRequestAddress, claimBody, address("10.1.0.8/16"), "internal", "Withdraw 7, Recheck"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				tt.backend.take()
				var log lines
				var result string
				d := newDriver(t, Config{Backend: tt.backend, Logger: log.logger(), Observe: func(call, r string, _ time.Duration) {
					if call != tt.method {
						t.Errorf("observed a call of %s", call)
					}
					result = r
				}})
				d.lastID.Store(0x7f39)
				w := ask(t.Context(), d, tt.method, tt.body)
				var answer map[string]string
				if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || len(answer) != 1 {
					t.Fatalf("answered %d %s: %v", w.Code, w.Body, err)
				}
				golden.Check(t, "sentences/"+tt.name+".txt", []byte(answer["Error"]+"\n"))
				if result != tt.result {
					t.Errorf("result %q, want %q", result, tt.result)
				}
				did := slices.DeleteFunc(tt.backend.take(), func(s string) bool { return strings.HasPrefix(s, "Request") })
				if got := strings.Join(did, ", "); got != tt.done {
					t.Errorf("did %q, want %q", got, tt.done)
				}
				if strings.Contains(answer["Error"], "request 00007f3a") != strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "request=00007f3a") {
					t.Errorf("answer %q, log:\n%s", answer["Error"], log.String())
				}
				for line := range strings.Lines(log.String()) {
					if len(line) > 32<<10 {
						t.Errorf("a line of the log has %d bytes: an engine's log reader ends at 64 KiB (T20)", len(line))
					}
				}
			})
		})
	}
}
