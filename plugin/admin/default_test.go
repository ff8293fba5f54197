package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// some is a backend with the first pools of another.
type some struct {
	*memory
	pools int
}

func (s some) Status(ctx context.Context) (ipam.Status, error) {
	st, err := s.memory.Status(ctx)
	st.Pools = st.Pools[:s.pools]
	return st, err
}

func (s some) Snapshot(ctx context.Context) (ipam.Status, error) { return s.Status(ctx) }

// Who names no pool gets an address of the default pool, else of the only one, and
// is told the pools where there are several (W1).
func TestDefaultPool(t *testing.T) {
	for _, tt := range []struct {
		pools int
		given string
		code  int
		want  string
	}{
		{2, "lab", http.StatusCreated, `"pool":"10.50.0.0/29"`},
		{2, "10.50.0.0/29", http.StatusCreated, `"pool":"10.50.0.0/29"`},
		{2, "office", http.StatusNotFound, "office"},
		{2, "", http.StatusBadRequest, "name the pool, or set RINGLET_DEFAULT_POOL on this host; there are lab, fd00:50::/64"},
		{1, "", http.StatusCreated, `"pool":"fd00:50::/64"`},
		{0, "", http.StatusNotFound, "there is no pool: make one with ringlet pool create"},
	} {
		c := serveOn(t, Config{Backend: some{newMemory(), tt.pools}, DefaultPool: tt.given})
		code, _, text := do(t, c, http.MethodPost, "/v1/addresses", `{"for":"printer-9"}`)
		if code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%+v: got %d %s", tt, code, text)
		}
	}
}
