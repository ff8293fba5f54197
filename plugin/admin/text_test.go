package admin

import (
	"net/http"
	"strings"
	"testing"
)

// A name that is no UTF-8 is refused wherever it comes: encoding/json makes one
// of "Küche" and "Köche" in Latin-1, who would share an address.
func TestNameThatIsNoUTF8(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory()})
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/pools/lab/addresses", "{\"for\":\"K\xfcche\"}"},
		{"POST", "/v1/reservations", "{\"addresses\":\"10.50.0.5\",\"for\":\"K\xfcche\"}"},
		{"DELETE", "/v1/addresses?for=K%FCche", ""},
		{"GET", "/v1/addresses?for=K%FCche", ""},
	} {
		w, p := ask(t.Context(), s.Handler(), tt.method, tt.path, strings.NewReader(tt.body))
		if w.Code != http.StatusBadRequest || !strings.Contains(p.Detail, "not UTF-8") {
			t.Errorf("%s %s %q: %d %s", tt.method, tt.path, tt.body, w.Code, w.Body)
		}
	}
}

// null would do for an object without members, and a peer would leave for it.
func TestNullIsNoObject(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory()})
	for _, path := range []string{"/v1/self/leave", "/v1/self/drain"} {
		w, p := ask(t.Context(), s.Handler(), "POST", path, strings.NewReader(" null\n"))
		if w.Code != http.StatusBadRequest || !strings.Contains(p.Detail, "must be a JSON object, not null") {
			t.Errorf("POST %s null: %d %s", path, w.Code, w.Body)
		}
	}
}

// A field that is spelled in another case, or given twice, is refused as an unknown one is: the last of them would
// be taken, and one that reads the request before it may have taken the first.
func TestFieldsAreGivenOnce(t *testing.T) {
	c := serveOn(t, Config{Backend: newMemory()})
	for body, want := range map[string]string{
		`{"for":"a","FOR":"b"}`:                                  `unknown field \"FOR\": write it \"for\"`,
		`{"for":"a","for":"b"}`:                                  `\"for\" is given twice: give it once`,
		`{"Address":"10.50.0.9","for":"a"}`:                      `unknown field \"Address\": write it \"address\"`,
		`{"for":{"for":1}}`:                                      `must be a string`,
		`{"for":"for","address":"10.50.0.9","host":"10.50.0.9"}`: `unknown field`,
	} {
		status, _, answer := do(t, c, http.MethodPost, "/v1/pools/10.50.0.0%2F24/addresses", body)
		if status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", body, status, answer, want)
		}
	}
	// There is no such pool: the request was read.
	if status, _, answer := do(t, c, http.MethodPost, "/v1/pools/10.50.0.0%2F24/addresses", `{"for":"for"}`); status != http.StatusNotFound {
		t.Errorf("%d %s", status, answer)
	}
}
