package journal

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/heap"
	"github.com/ringlet/ringlet/plugin/events"
)

var (
	usedPool  = netip.MustParsePrefix("10.0.0.0/8")
	otherPool = netip.MustParsePrefix("fd00::/64")
	usedSince = time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)
)

func tell(u *uses, kind string, pool netip.Prefix, a netip.Addr, h *events.Holder) {
	u.apply(&record{Event: events.Event{Kind: kind, Pool: pool, Address: a, Holder: h}})
}

// What is known of an address is what was last told, and two holders are one as
// far as both are known: what they are called, and since when.
func TestUses(t *testing.T) {
	var u uses
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	h := events.Holder{Kind: "container", Container: "c1", Name: `a","mac":"<b>`, MAC: "02:42:0a:00:00:01", Since: usedSince}
	tell(&u, events.Granted, usedPool, four, &h)
	tell(&u, events.Granted, otherPool, six, &h)
	if got, ok := u.use(four); !ok || got.Pool != usedPool || got.Holder != h {
		t.Errorf("known is %+v, want %+v", got, h)
	}
	for _, c := range []struct {
		what   string
		change func(*events.Holder)
		same   bool
	}{
		{"nothing", func(*events.Holder) {}, true},
		{"the MAC", func(h *events.Holder) { h.MAC = "" }, true},
		{"the clock's zone", func(h *events.Holder) { h.Since = h.Since.In(time.FixedZone("", 3600)) }, true},
		{"the time", func(h *events.Holder) { h.Since = h.Since.Add(1) }, false},
		{"the name", func(h *events.Holder) { h.Name = "c" }, false},
		{"the kind", func(h *events.Holder) { h.Kind = "client" }, false},
		{"the container", func(h *events.Holder) { h.Container = "" }, false},
	} {
		other := h
		c.change(&other)
		if got := u.has(four, other); got != c.same {
			t.Errorf("%s is another: the same is %v, want %v", c.what, got, c.same)
		}
	}
	tell(&u, events.PoolRemoved, otherPool, netip.Addr{}, nil)
	if got := u.addresses(); len(got) != 1 || got[0] != four {
		t.Errorf("%v are in use, want %v", got, four)
	}
	tell(&u, events.Freed, usedPool, four, nil)
	if len(u.addresses()) > 0 || u.has(four, h) {
		t.Errorf("%v are in use", u.addresses())
	}
	for range 100 * spare { // what comes and goes leaves nothing behind
		tell(&u, events.Granted, usedPool, four, &h)
		tell(&u, events.Freed, usedPool, four, nil)
	}
	if got := u.log.Len(); got > 2*spare+2 {
		t.Errorf("%d changes are kept for nothing", got)
	}
}

// What the journal knows of a held address takes less than 110 bytes.
func TestUsesMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector multiplies")
	}
	const held = 20_000
	before := heap.InUse()
	var u uses
	for i := range uint32(held) {
		a := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|i)))
		tell(&u, events.Granted, usedPool, a, &events.Holder{
			Kind: "container", Container: fmt.Sprintf("%064x", i), Name: fmt.Sprintf("container-%07d", i), MAC: fmt.Sprintf("02:42:%02x:%02x:%02x:01", i>>16, i>>8&255, i&255),
			Since: usedSince.Add(time.Duration(i)),
		})
	}
	if each := float64(heap.InUse()-before) / held; each > 110 {
		t.Errorf("an address takes %.0f bytes", each)
	}
	runtime.KeepAlive(&u)
}
