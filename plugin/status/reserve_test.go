package status

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// What could not be reserved is a list also where there is nothing of the kind,
// as openapi.json says: the answer of a whole peer, not of a stand-in.
func TestReservingTellsCollisions(t *testing.T) {
	store, n := plugintest.Open(t, t.TempDir())
	defer store.Close()
	if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix("10.50.0.0/24"), ""); err != nil {
		t.Fatal(err)
	}
	api, err := admin.New(admin.Config{Backend: New(Config{Node: n}), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"addresses":"10.50.0.8","for":"web"}`, `{"addresses":"10.50.0.9","note":"printer"}`} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://ringlet/v1/reservations", strings.NewReader(body))
		if api.Handler().ServeHTTP(answer, r); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"collisions":[]`) {
			t.Errorf("%s: %d %s", body, answer.Code, answer.Body)
		}
	}
}
