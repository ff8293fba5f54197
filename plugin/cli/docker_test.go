package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

const asDocker = "/usr/libexec/docker/cli-plugins/docker-ringlet"

// The arguments are those that docker 28.2 was seen to pass.
func TestDockerArguments(t *testing.T) {
	tests := []struct {
		argv     string
		want     string
		asDocker bool
	}{
		{"ringlet status", "status", false},
		{"ringlet ringlet", "ringlet", false},
		{"ringlet", "", false},
		{"ringlet docker-cli-plugin-metadata", "docker-cli-plugin-metadata", true},
		{asDocker + " docker-cli-plugin-metadata", "docker-cli-plugin-metadata", true},
		{asDocker + " ringlet status -o json", "status -o json", true},
		{asDocker + " ringlet ringlet", "ringlet", true},
		{asDocker + " -H unix:///x.sock ringlet who -h", "--host unix:///x.sock who -h", true},
		{asDocker + " --config /c -D -l debug --tlsverify --context default ringlet status", "status", true},
		{asDocker + " --host=tcp://h:1 ringlet serve --socket /s", "--host tcp://h:1 serve --socket /s", true},
		{asDocker + " ringlet --help", "--help", true},
		{asDocker + " help ringlet", "help", true},
		{asDocker + " help ringlet pool", "help pool", true},
		{asDocker + " __complete ringlet st", "__complete st", true},
		{asDocker + " status", "status", true},
		{asDocker + " -o json status", "-o json status", true},
		{asDocker + " --help", "--help", true},
		{asDocker, "", true},
	}
	for _, tt := range tests {
		got, docker, err := dockerArgs(strings.Fields(tt.argv))
		if err != nil || strings.Join(got, " ") != tt.want || (docker != nil) != tt.asDocker {
			t.Errorf("%s: got %q, %v, %v; want %q, %v", tt.argv, got, docker, err, tt.want, tt.asDocker)
		}
	}
	if args, _, err := dockerArgs(nil); len(args) > 0 || err != nil {
		t.Errorf("without a name: %q, %v", args, err)
	}
}

func TestDockerMetadata(t *testing.T) {
	for _, name := range []string{asDocker, "ringlet"} {
		got := program(t, Config{}, []string{name, "docker-cli-plugin-metadata"})
		var meta map[string]string
		if err := json.Unmarshal([]byte(got.out), &meta); err != nil || got.code != 0 {
			t.Fatalf("code %d, %v: %s", got.code, err, got.out)
		}
		want := map[string]string{
			"SchemaVersion": "0.1.0", "Vendor": "ringlet", "Version": "v1.2.3", "ShortDescription": "IP address management for Docker networks",
		}
		if diff := cmp.Diff(want, meta); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
	}
}

func TestAsDockerPlugin(t *testing.T) {
	var asked string
	find := func(_ context.Context, host string) ([]dockerd.Plugin, error) { asked = host; return nil, nil }
	got := program(t, Config{FindPlugin: find}, []string{asDocker, "-H", "unix:///x.sock", "ringlet", "status"})
	if asked != "unix:///x.sock" || got.code != 1 {
		t.Errorf("asked %q, got %+v", asked, got)
	}
	socket := serve(t, alone())
	if got := program(t, Config{}, []string{asDocker, "ringlet", "status", "--socket", socket}); got.code != 0 || !strings.HasPrefix(got.out, "fine: ") {
		t.Errorf("got %+v", got)
	}
	if got := program(t, Config{}, []string{asDocker, "ringlet", "pool", "--help"}); !strings.Contains(got.out, "docker ringlet pool [command]") {
		t.Errorf("the help does not say how to call it: %s", got.out)
	}
	got = program(t, Config{}, []string{asDocker, "--context", "remote", "-H", "unix:///x.sock", "ringlet", "status"})
	if got.code != 2 || !strings.Contains(got.err, "not with both") {
		t.Errorf("got %+v", got)
	}
}

func FuzzDockerArgs(f *testing.F) {
	for _, seed := range []string{"ringlet status", "-H x ringlet", "--context y ringlet", "help ringlet", "-", "--", "-H", "=", "docker-cli-plugin-metadata"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		got, docker, err := dockerArgs(append([]string{asDocker}, args...))
		if docker == nil {
			t.Error("the program's name was not seen")
		}
		if err == nil && len(got) > len(args) {
			// --host=x becomes two arguments, and nothing else grows.
			if len(got) > len(args)+1 || got[0] != "--host" {
				t.Errorf("%q became %q", args, got)
			}
		}
	})
}
