package admin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

// cabinet is the locks of a peer that is alone.
type cabinet struct {
	mu    sync.Mutex
	table lock.Table
	slot  uint64
}

var cabinetOwner = peer.ID{0xc1}

func (c *cabinet) Take(_ context.Context, w lock.Want) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := lock.CheckName(w.Name); err != nil {
		return 0, &ipam.Error{Kind: ipam.ErrBadRequest, Text: err.Error()}
	}
	w.Since = 1_795_338_000 // of the time at which the other things of these tests happen
	if l := c.table.Of(w.Name); l != nil && l.Token == w.Token {
		return l.Fence, nil
	}
	c.slot++
	fence, refused := c.table.Take(cabinetOwner, w, 6+c.slot)
	if refused != "" {
		return 0, &ipam.Error{Kind: ipam.ErrLocked, Text: refused}
	}
	return fence, nil
}

func (c *cabinet) Renew(_ context.Context, name string, fence uint64) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.table.Of(name)
	return l != nil && l.Fence == fence, nil
}

func (c *cabinet) Release(_ context.Context, name string, fence uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.End(name, fence, cabinetOwner)
	return nil
}

func (c *cabinet) List(context.Context) ([]lock.Lock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Locks, nil
}

// A lock is for programs of the host that holds it: over TCP it is seen, and that is all.
func TestLocksOverTCP(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Locks: &cabinet{}, Remote: true, Token: strings.Repeat("t", 32)})
	for request, want := range map[string]int{
		"GET /v1/locks": http.StatusOK, "POST /v1/locks/backup": http.StatusForbidden, "PUT /v1/locks/backup": http.StatusForbidden, "DELETE /v1/locks/backup?fence=1": http.StatusForbidden,
	} {
		method, path, _ := strings.Cut(request, " ")
		w, text := ask(t.Context(), s.Handler(), method, "http://127.0.0.1:7951"+path, strings.NewReader("{}"), "Authorization", "Bearer "+strings.Repeat("t", 32))
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %v", request, w.Code, want, text)
		}
	}
}
