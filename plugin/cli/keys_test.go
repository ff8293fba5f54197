package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/plugin/admin"
)

func TestKeys(t *testing.T) {
	two := admin.Keys{Source: "file", File: "/data/keys", Keys: []admin.Key{{Fingerprint: "0a1b2c3d", Encrypts: true}, {Fingerprint: "4e5f6071"}}}
	one := admin.Keys{Source: "settings", Keys: two.Keys[:1]}
	set := admin.Keys{Source: "settings", Keys: two.Keys}
	first := admin.Keys{Source: "file", File: "/data/keys", Keys: two.Keys[:1]}
	var all strings.Builder
	for _, tt := range []struct {
		args, in string
		keys     admin.Keys
		code     int
		asked    string
	}{
		{"keys ls", "", admin.Keys{Source: "none"}, exitFine, "keys"},
		{"keys ls", "", one, exitFine, "keys"},
		{"keys ls", "", two, exitFine, "keys"},
		{"keys rotate", "", admin.Keys{Source: "none"}, exitFine, "keys"},
		{"keys rotate", "", one, exitFine, "keys"},
		{"keys rotate", "", set, exitFine, "keys"},
		{"keys rotate", "", first, exitFine, "keys"},
		{"keys rotate", "", two, exitFine, "keys"},
		{"keys rotate add SECRET", "", two, exitFine, "keys add SECRET"},
		{"keys rotate use -", "SECRET\n", two, exitFine, "keys use SECRET"},
		{"keys rotate drop -", "SECRET", two, exitFine, "keys drop SECRET"},
		{"keys rotate add bad", "", two, exitFailed, ""},
		{"keys rotate add -", "", two, exitFailed, ""},
		{"keys rotate add", "", two, exitUsage, ""},
		{"keys rotate away SECRET", "", two, exitUsage, ""},
	} {
		f := alone()
		f.keys = tt.keys
		got := ringlet(t, Config{columns: 80, In: strings.NewReader(tt.in), Getenv: env("RINGLET_SOCKET", serve(t, f))}, strings.Fields(tt.args)...)
		if asked := strings.Join(f.calls, ", "); got.code != tt.code || asked != tt.asked {
			t.Errorf("%s: code %d, said %s, asked for %s", tt.args, got.code, got.err, asked)
		}
		if strings.Contains(got.out+got.err, "SECRET") {
			t.Errorf("%s shows the key: %+v", tt.args, got)
		}
		if tt.keys.Source == "settings" && strings.Contains(got.out, "keys rotate") {
			t.Errorf("%s: says to do what is refused with keys in a setting: %s", tt.args, got.out)
		}
		fmt.Fprintf(&all, "$ ringlet %s\n\n%s%s\n", tt.args, got.out, got.err)
	}
	golden.Check(t, "keys.txt", []byte(all.String()))
}
