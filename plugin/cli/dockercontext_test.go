package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

// write makes a file with all folders above it.
func write(t *testing.T, text string, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dockerHome makes docker's configuration with contexts below a home directory; the
// files are as docker 28.2 was seen to write them.
func dockerHome(t *testing.T, current string) (home, config string) {
	t.Helper()
	home = t.TempDir()
	config = filepath.Join(home, ".docker")
	for name, host := range map[string]string{"rootless": "unix:///run/user/1000/docker.sock", "far": "ssh://root@far", "plain": ""} {
		id := sha256.Sum256([]byte(name))
		write(t, `{"Name":"`+name+`","Metadata":{},"Endpoints":{"docker":{"Host":"`+host+`","SkipTLSVerify":false}}}`,
			config, "contexts", "meta", hex.EncodeToString(id[:]), "meta.json")
	}
	id := sha256.Sum256([]byte("broken"))
	write(t, `{`, config, "contexts", "meta", hex.EncodeToString(id[:]), "meta.json")
	if current != "" {
		write(t, `{"auths":{},"currentContext":"`+current+`"}`, config, "config.json")
	}
	return home, config
}

// The engine is the one that docker itself would ask.
func TestDockerContexts(t *testing.T) {
	const rootless = "unix:///run/user/1000/docker.sock"
	home, config := dockerHome(t, "rootless")
	bare, _ := dockerHome(t, "")
	far, _ := dockerHome(t, "far")
	damaged := t.TempDir()
	write(t, `{"currentContext":`, damaged, ".docker", "config.json")
	for _, c := range []struct {
		what  string
		flags string
		env   map[string]string
		want  string
		wrong string // what the refusal says
	}{
		{"nothing", "", nil, "", ""},
		{"no context in use", "", map[string]string{"HOME": bare}, "", ""},
		{"in use", "", map[string]string{"HOME": home}, rootless, ""},
		{"in use, another configuration", "", map[string]string{"HOME": bare, "DOCKER_CONFIG": config}, rootless, ""},
		{"in use, --config", "--config " + config, map[string]string{"HOME": far}, rootless, ""},
		{"DOCKER_CONTEXT", "", map[string]string{"HOME": far, "DOCKER_CONTEXT": "rootless"}, rootless, ""},
		{"DOCKER_CONTEXT default", "", map[string]string{"HOME": home, "DOCKER_CONTEXT": "default"}, "", ""},
		{"DOCKER_HOST", "", map[string]string{"HOME": far, "DOCKER_CONTEXT": "far", "DOCKER_HOST": "unix:///y.sock"}, "", ""},
		{"-H", "-H unix:///x.sock", map[string]string{"HOME": far, "DOCKER_CONTEXT": "far"}, "unix:///x.sock", ""},
		{"--context", "--context rootless", map[string]string{"HOME": far, "DOCKER_HOST": "unix:///y.sock"}, rootless, ""},
		{"--context default", "--context default", map[string]string{"HOME": home}, "", ""},
		{"without an address", "-c plain", map[string]string{"HOME": home}, "", ""},

		{"unknown", "-c lab", map[string]string{"HOME": home}, "", `no docker context "lab": docker context ls`},
		{"unknown, without a home", "-c lab", nil, "", `no docker context "lab"`},
		{"on another host", "", map[string]string{"HOME": far}, "", `"far" leads to ssh://root@far`},
		{"damaged", "-c broken", map[string]string{"HOME": home}, "", "meta.json"},
		{"damaged configuration", "", map[string]string{"HOME": damaged}, "", "config.json"},
	} {
		asked := "nobody"
		find := func(_ context.Context, host string) ([]dockerd.Plugin, error) { asked = host; return nil, nil }
		cfg := Config{FindPlugin: find, Getenv: func(name string) string { return c.env[name] }}
		got := program(t, cfg, strings.Fields(asDocker+" "+c.flags+" ringlet status"))
		switch {
		case c.wrong == "" && asked != c.want:
			t.Errorf("%s: %q was asked, want %q: %s", c.what, asked, c.want, got.err)
		case c.wrong != "" && (asked != "nobody" || got.code != 1 || !strings.Contains(got.err, c.wrong)):
			t.Errorf("%s: %q was asked, code %d: %s", c.what, asked, got.code, got.err)
		}
	}

	// The program itself is not docker, and what needs no engine asks for none.
	asked := "nobody"
	find := func(_ context.Context, host string) ([]dockerd.Plugin, error) { asked = host; return nil, nil }
	cfg := Config{FindPlugin: find, Getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}
	if program(t, cfg, []string{"ringlet", "status"}); asked != "" {
		t.Errorf("ringlet asked %q", asked)
	}
	if got := program(t, cfg, strings.Fields(asDocker+" --context lab ringlet status --help")); got.code != 0 {
		t.Errorf("help: %+v", got)
	}
}
