package admin

import (
	_ "embed" // for the document
	"net/http"
)

// document describes the API for programs (OpenAPI 3.1). It is written by
// hand; a test holds it against the routes, the types and what is answered.
//
//go:embed openapi.json
var document []byte

// openAPI answers with the document.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(document) // an error is the client's end
}
