package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
)

// TestEverythingWrong is what an operator reads who got everything wrong, or
// whose provisioning has put the values into the wrong names.
func TestEverythingWrong(t *testing.T) {
	src := testSource()
	src.host = func() (string, error) { return "", errors.New("no such file or directory") }
	_, err := load([]string{
		"RINGLET_JION=host-a",
		"RINGLET_LOG_LEVEL=debug",
		"RINGLET_SUBENT=26",
		"RINGLET_FLUX_CAPACITOR=on",
		"RINGLET_BIND=eth0",
		"RINGLET_ADVERTISE=0.0.0.0",
		"RINGLET_JOIN=host-a:99999,http://host-b,10.0.0.256",
		"RINGLET_BOOTSTRAP=many",
		"RINGLET_CLUSTER=the cluster of the second floor",
		"RINGLET_KEY=hunter2",
		"RINGLET_KEY_FILE=/keys/none",
		"RINGLET_INSECURE=perhaps",
		"RINGLET_UNIVERSE=10.32.5.0/12,10.0.0.0/8,10.9.0.0/16,fd00::/8,192.168.0.0",
		"RINGLET_SUBNET=24,48",
		"RINGLET_AVOID=the LAN",
		"RINGLET_EVICT_AFTER=15",
		"RINGLET_DEAL=some",
		"RINGLET_CHUNK=-1",
		"RINGLET_QUARANTINE=1s",
		"RINGLET_BOOT_ALONE=no",
		"RINGLET_REST=2 days",
		"RINGLET_TIMEOUT=1m",
		"RINGLET_MAC=yes",
		"RINGLET_HTTP=9950",
		"RINGLET_HTTP_HOSTS=a b,*.example.com",
		"RINGLET_HTTP_CERT=cert.pem",
		"RINGLET_HTTP_KEY=~/key.pem",
		"RINGLET_TOKEN=correct horse",
		"RINGLET_ETCD=etcd-1:2379,http://u:p@etcd-1,https://etcd-2/v3,http://etcd-3,https://[fd00::1",
		"RINGLET_DEFAULT_POOL=10.50.0.1/24",
		"RINGLET_ETCD_CA=ca.pem",
		"RINGLET_ETCD_USER=a b",
		"LOG_LEVEL=" + strings.Repeat("verbose ", 20),
		"RINGLET_LOG_FORMAT=logfmt\n",
		"RINGLET_LOG_FORMAT=log\nfmt",
	}, src)
	if err == nil {
		t.Fatal("accepted")
	}
	golden.Check(t, "everything-wrong.txt", []byte(err.Error()+"\n"))
}

// TestWrongTogether is what is wrong only with each other.
func TestWrongTogether(t *testing.T) {
	var out strings.Builder
	for _, environ := range [][]string{
		{"RINGLET_JOIN=host-a", "RINGLET_HTTP=:7950", "RINGLET_ADVERTISE=fd00::1", "RINGLET_UNIVERSE=10.0.0.0/26,fd00::/64", "RINGLET_SUBNET=24,64"},
		{"RINGLET_HTTP_CERT=/tls/cert.pem"},
		{"RINGLET_HTTP_KEY=/tls/key.pem"},
		{"RINGLET_ETCD_CERT=/etcd/cert.pem", "RINGLET_ETCD=https://etcd-1"},
		{"RINGLET_ETCD_PASSWORD_FILE=/etcd/password", "RINGLET_ETCD=https://etcd-1"},
		{"RINGLET_ETCD_USER=ringlet", "RINGLET_ETCD_PASSWORD_FILE=/etcd/password"},
		{"RINGLET_ETCD_CA=/etcd/ca.pem", "RINGLET_ETCD=http://etcd-1"},
		{"RINGLET_BOOTSTRAP=observer", "RINGLET_KEY=" + key1, "RINGLET_KEY_FILE=/keys/two"},
	} {
		_, err := load(environ, testSource())
		if err == nil {
			t.Fatalf("%q was accepted", environ)
		}
		out.WriteString(err.Error() + "\n")
	}
	golden.Check(t, "wrong-together.txt", []byte(out.String()))
}

func TestReference(t *testing.T) {
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "reference.md", b.Bytes())
	manual, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(manual, b.Bytes()) {
		t.Error("docs/settings.md has another table than testdata/reference.md: copy it there")
	}
}

// TestTable keeps the table complete and its texts printable where they go: a
// line of a log, a cell of a table, an entry of the manifest.
func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^(LOG_LEVEL|RINGLET_[A-Z]+(_[A-Z]+)*)$`)
	seen := map[string]bool{}
	for _, s := range Settings() {
		t.Run(s.Name, func(t *testing.T) {
			if !name.MatchString(s.Name) || seen[s.Name] {
				t.Error("the name is none of ours, or twice in the table")
			}
			seen[s.Name] = true
			for what, text := range map[string]string{"range": s.Range, "example": s.Example, "meaning": s.Meaning, "effect": s.Effect} {
				if text == "" || strings.ContainsAny(text, "|\n\"") || strings.HasSuffix(text, ".") {
					t.Errorf("%s %q is empty, has a full stop or does not fit a cell", what, text)
				}
			}
			if s.Default == "" && s.Auto == "" {
				t.Error("nothing says what is the default")
			}
			if len(s.Meaning) > 120 {
				t.Errorf("the meaning has %d characters, too many for the manifest", len(s.Meaning))
			}
			if s.Default == s.Example {
				t.Error("the example is the default and shows nothing")
			}
			if s.Secret || s.Name == "RINGLET_KEY_FILE" {
				return // a secret's example is no value, and the file is not there
			}
			environ := []string{s.Name + "=" + s.Example, "RINGLET_INSECURE=true"}
			switch s.Name {
			case "RINGLET_HTTP_CERT":
				environ = append(environ, "RINGLET_HTTP_KEY=/data/tls/key.pem")
			case "RINGLET_HTTP_KEY":
				environ = append(environ, "RINGLET_HTTP_CERT=/data/tls/cert.pem")
			case "RINGLET_ETCD_CA":
				environ = append(environ, "RINGLET_ETCD=https://etcd-1")
			case "RINGLET_ETCD_CERT":
				environ = append(environ, "RINGLET_ETCD=https://etcd-1", "RINGLET_ETCD_KEY=/data/etcd/key.pem")
			case "RINGLET_ETCD_KEY":
				environ = append(environ, "RINGLET_ETCD=https://etcd-1", "RINGLET_ETCD_CERT=/data/etcd/cert.pem")
			case "RINGLET_ETCD_USER":
				environ = append(environ, "RINGLET_ETCD=https://etcd-1", "RINGLET_ETCD_PASSWORD_FILE=/data/etcd/password")
			case "RINGLET_ETCD_PASSWORD_FILE":
				environ = append(environ, "RINGLET_ETCD=https://etcd-1", "RINGLET_ETCD_USER=ringlet")
			}
			mustLoad(t, environ...)
			if s.Default == "" {
				return
			}
			got := mustLoad(t, s.Name+"="+s.Default)
			got.DeriveULA = true // the one difference between saying nothing and saying the default
			if d := cmp.Diff(defaults(), got, comparers()); d != "" {
				t.Errorf("the default, said aloud, is not the default (-want +got):\n%s", d)
			}
		})
	}
}

// TestLogValueShowsAll: no setting is missing when they are logged.
func TestLogValueShowsAll(t *testing.T) {
	var got []string
	for _, a := range mustLoad(t).LogValue().Group() {
		got = append(got, a.Key)
	}
	var want []string
	for _, s := range Settings() {
		want = append(want, strings.ToLower(strings.TrimPrefix(s.Name, prefix)))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// manifestEnv is an entry of env in config.json.
type manifestEnv struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Settable    []string `json:"settable"`
	Value       *string  `json:"value,omitempty"`
}

// TestManifest compares the plugin's manifest with the table: what the engine
// lets an operator set is what Load knows.
func TestManifest(t *testing.T) {
	content, err := os.ReadFile("../../config.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no config.json in the root of the module")
	}
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Env []manifestEnv `json:"env"`
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}

	var want []manifestEnv
	defaultOf := map[string]string{}
	for _, s := range Settings() {
		want = append(want, manifestEnv{Name: s.Name, Description: s.Meaning, Settable: []string{"value"}})
		defaultOf[s.Name] = s.Default
	}
	got := manifest.Env
	for i, e := range got {
		// An upgrade does not apply a new value, so one that is not the
		// binary's own default would hold for some hosts only.
		if e.Value != nil && *e.Value != "" && *e.Value != defaultOf[e.Name] {
			t.Errorf("%s has the value %q, want none or the default %q", e.Name, *e.Value, defaultOf[e.Name])
		}
		got[i].Value = nil
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the env of config.json differs from the table, whose meanings are its descriptions (-table +config.json):\n%s", d)
	}
}
