package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ringlet/ringlet/internal/console"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/standby"
)

// compose is what the examples say of networks.
type compose struct {
	Services map[string]struct {
		Networks any `yaml:"networks"` // a list, or by name
	} `yaml:"services"`
	Networks map[string]struct {
		Driver string `yaml:"driver"`
		IPAM   struct {
			Driver string `yaml:"driver"`
			Config []struct {
				Subnet  string            `yaml:"subnet"`
				Range   string            `yaml:"ip_range"`
				Gateway string            `yaml:"gateway"`
				Aux     map[string]string `yaml:"aux_addresses"`
			} `yaml:"config"`
			Options map[string]string `yaml:"options"`
		} `yaml:"ipam"`
	} `yaml:"networks"`
}

// examples reads the compose files of the manual.
func examples(t *testing.T) map[string]compose {
	t.Helper()
	files, err := filepath.Glob("../docs/examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	out := map[string]compose{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c compose
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[file] = c
	}
	return out
}

// askingEngine asks the driver of a process as an engine does.
type askingEngine struct {
	t    *testing.T
	http *http.Client
}

func (e askingEngine) ask(call string, request, answer any) error {
	e.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := e.http.Post("http://plugin/IpamDriver."+call, "application/json", bytes.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	var failed struct{ Err, Error string }
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		e.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = json.Unmarshal(text.Bytes(), &failed)
		return fmt.Errorf("%s: %s", call, failed.Err)
	}
	return json.Unmarshal(text.Bytes(), answer)
}

type poolAnswer struct {
	PoolID, Pool string
	Data         map[string]string
}

type addressAnswer struct{ Address string }

// Every network of every example is made, with its gateway, its auxiliary
// addresses and a container for each service, by the plugin itself.
func TestExamplesOfTheManual(t *testing.T) {
	for file, c := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p := start(t, t.TempDir())
			defer p.stop()
			h := plugintest.Client(p.socket)
			defer h.CloseIdleConnections()
			e := askingEngine{t, h}
			given := map[string]string{}
			for name, n := range c.Networks {
				if n.IPAM.Driver != "ringlet:latest" || len(n.IPAM.Config) == 0 {
					t.Errorf("network %s does not name ringlet, or no subnet", name)
				}
				for _, cfg := range n.IPAM.Config {
					var pool poolAnswer
					v6 := strings.Contains(cfg.Subnet, ":")
					if err := e.ask("RequestPool", map[string]any{"AddressSpace": "local", "Pool": cfg.Subnet, "SubPool": cfg.Range, "Options": n.IPAM.Options, "V6": v6}, &pool); err != nil {
						t.Fatal(err)
					}
					take := func(what, address string, options map[string]string) {
						var got addressAnswer
						if err := e.ask("RequestAddress", map[string]any{"PoolID": pool.PoolID, "Address": address, "Options": options}, &got); err != nil {
							t.Fatalf("%s: %v", what, err)
						}
						if given[got.Address] != "" {
							t.Errorf("%s and %s have %s", given[got.Address], what, got.Address)
						}
						given[got.Address] = what
						if prefix, err := netip.ParsePrefix(got.Address); err != nil || address != "" && prefix.Addr().String() != address {
							t.Errorf("%s asked for %q and got %s", what, address, got.Address)
						}
					}
					if cfg.Gateway != "" || n.Driver == "bridge" && pool.Data["com.docker.network.gateway"] == "" {
						take("the gateway", cfg.Gateway, map[string]string{"RequestAddressType": "com.docker.network.gateway"})
					}
					for aux, address := range cfg.Aux {
						take("auxiliary "+aux, address, nil)
					}
					for service, s := range c.Services {
						fixed := ""
						if by, ok := s.Networks.(map[string]any); ok && !v6 {
							if on, ok := by[name].(map[string]any); ok {
								fixed, _ = on["ipv4_address"].(string)
							}
						}
						take(service, fixed, map[string]string{"com.docker.network.endpoint.name": service})
					}
				}
			}
			if len(given) < 1 {
				t.Error("nothing was given out")
			}
		})
	}
}

// The examples are compose files for the real one, where there is one.
func TestExamplesAreComposeFiles(t *testing.T) {
	program, err := exec.LookPath("docker-compose")
	if err != nil {
		t.Skip("there is no docker-compose here")
	}
	for file := range examples(t) {
		cmd := exec.CommandContext(t.Context(), program, "-f", file, "config", "-q")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// manual returns the pages of the manual by their paths.
func manual(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	out := map[string]string{}
	for _, file := range append(files, "../docs/monitoring/README.md", "../README.md", "../CHANGELOG.md", "../ARCHITECTURE.md", "../SECURITY.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file] = string(text)
	}
	return out
}

// What the manual says that the terminal says, it does say.
func TestErrorsOfTheManual(t *testing.T) {
	var said strings.Builder
	said.WriteString(standby.Refusal)
	for _, file := range []string{"sentences.txt", "sentences-cluster.txt"} {
		text, err := os.ReadFile(filepath.Join("../ipam/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		said.Write(text)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	rows := row.FindAllStringSubmatch(manual(t)["../docs/troubleshooting.md"], -1)
	if len(rows) < 15 {
		t.Fatalf("only %d errors are in the manual", len(rows))
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if !strings.Contains(said.String(), r[1]) {
			t.Errorf("no sentence has %q", r[1])
		}
		if seen[r[1]] {
			t.Errorf("%q is explained twice", r[1])
		}
		seen[r[1]] = true
	}
}

// Links of the manual lead to a file that exists, and to a heading of it.
func TestLinksOfTheManual(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	for page, text := range manual(t) {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			target, content := page, []byte(text)
			if l[1] != "" {
				target = filepath.Join(filepath.Dir(page), l[1])
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: %v", page, err)
					continue
				}
			}
			if l[2] == "" {
				continue
			}
			if l[1] != "" {
				var err error
				if content, err = os.ReadFile(target); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Contains(anchors(string(content)), l[2]) {
				t.Errorf("%s: %s has no heading #%s", page, target, l[2])
			}
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	heading, dropped := regexp.MustCompile(`(?m)^#+ (.*)$`), regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var out []string
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return out
}

// Where the manual first shows a key it is in a file, and no command that it shows has a key or a token in it.
func TestKeysOfTheManual(t *testing.T) {
	inCommand := regexp.MustCompile(`RINGLET_(KEY|TOKEN)=\S|keygen >`)
	for page, text := range manual(t) {
		inFile := false
		for _, b := range console.Blocks(text) {
			for _, line := range b.Lines {
				if inCommand.MatchString(line.Command) {
					t.Errorf("%s: %s: use a file", page, line.Command)
				}
				inFile = inFile || strings.Contains(line.Command, "RINGLET_KEY_FILE=")
			}
		}
		if !inFile && (page == "../README.md" || page == "../docs/operations.md") {
			t.Errorf("%s shows no key in a file", page)
		}
	}
}

// A service that ends at once, as long as its disk is full, is started for as long as it
// takes: systemd gives up on one that was started five times within ten seconds.
func TestUnitOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../docs/examples/ringlet.service")
	if err != nil {
		t.Fatal(err)
	}
	section, where := "", map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
			section = line
		}
		where[line] = section
	}
	for line, want := range map[string]string{"Restart=always": "[Service]", "StartLimitIntervalSec=0": "[Unit]"} {
		if where[line] != want {
			t.Errorf("%s stands in %q, want %s", line, where[line], want)
		}
	}
}

// The unit gives ringlet what it needs and little else, as systemd itself judges: 10 is a unit without any limit.
func TestUnitOfTheManualIsConfined(t *testing.T) {
	const most = "25" // tenths
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	cmd := exec.CommandContext(t.Context(), program, "security", "--no-pager", "--offline=true", "--threshold="+most, "../docs/examples/ringlet.service")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("Overall exposure level")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// What make runs is whole also where the folder of the source, or that of the engine, has a
// space in its name.
func TestMakeInAFolderWithASpace(t *testing.T) {
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip("there is no make here")
	}
	dir := filepath.Join(t.TempDir(), "my source")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { // it is run
			t.Fatal(err)
		}
	}
	rules, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	write("Makefile", string(rules))
	write("scripts/plugin.sh", "#!/bin/sh\n")
	write("scripts/test.sh", "#!/bin/sh\necho engine \"$RINGLET_E2E_ENGINE\"\n")
	write("go", "#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done; echo\n")
	for _, tt := range []struct{ target, engine, want string }{
		{"bench", "", "<-dir><" + dir + "/build><-short>"},
		{"e2e", "", "engine \n"},
		{"e2e", "an engine", "engine " + dir + "/an engine\n"},
		{"e2e", "/opt/an engine", "engine /opt/an engine\n"},
	} {
		// What these need is there already.
		cmd := exec.CommandContext(t.Context(), program, "-o", "build/plugin", "-o", "build/demo.tar", tt.target, "GO=./go", "ARCH=amd64", "ENGINE="+tt.engine, "BENCH=-short")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("make %s ENGINE=%q: %v, want %q in\n%s", tt.target, tt.engine, err, tt.want, out)
		}
	}
}
