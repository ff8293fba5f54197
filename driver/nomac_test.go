package driver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The setting decides whether engines are to give endpoints a MAC, and nothing else.
func TestCapabilitiesWithoutMAC(t *testing.T) {
	for noMAC, want := range map[bool]string{
		false: `{"RequiresMACAddress":true,"RequiresRequestReplay":true}`,
		true:  `{"RequiresMACAddress":false,"RequiresRequestReplay":true}`,
	} {
		d := newDriver(t, Config{Backend: &fake{}, NoMAC: noMAC})
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/IpamDriver.GetCapabilities", nil))
		if got := strings.TrimSpace(w.Body.String()); got != want {
			t.Errorf("without MAC %t: %s, want %s", noMAC, got, want)
		}
	}
}
