package driver

import (
	"bytes"
	"encoding/json"
	"testing"

	remote "github.com/docker/go-plugins-helpers/ipam"
)

// TestGranted: the answer is what the engine's own type would be.
func TestGranted(t *testing.T) {
	for _, p := range []string{"10.1.0.9/16", "fd00::9/64"} {
		want, err := json.Marshal(remote.RequestAddressResponse{Address: p, Data: map[string]string{}})
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := encode(&got, granted{prefix(p)}); err != nil || got.String() != string(want)+"\n" {
			t.Errorf("got %s, %v, want %s", got.String(), err, want)
		}
	}
}
