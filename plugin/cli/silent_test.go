package cli

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// silence is an engine with one plugin that does not answer, and the data of that.
type silence struct {
	t      *testing.T
	root   string
	plugin dockerd.Plugin
	data   string
}

func newSilence(t *testing.T) *silence {
	t.Helper()
	s := &silence{t: t, root: t.TempDir(), plugin: dockerd.Plugin{ID: "aa", Name: "ringlet:latest"}}
	s.data = s.plugin.Data(s.root)
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := persist.Open(persist.Config{Path: s.database(), Schema: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// says writes a file of the plugin's.
func (s *silence) says(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.data, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// installs writes a program for a machine, of which there is no more than its header.
func (s *silence) installs(machine elf.Machine) {
	s.t.Helper()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		s.t.Fatal(err)
	}
	program := s.plugin.Path(s.root, entrypoint)
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(program, b.Bytes(), 0o700); err != nil { // a program
		s.t.Fatal(err)
	}
}

// lacks removes what it has.
func (s *silence) lacks(path string) {
	s.t.Helper()
	if err := os.RemoveAll(path); err != nil {
		s.t.Fatal(err)
	}
}

func (s *silence) database() string { return filepath.Join(s.data, DatabaseName) }

func (s *silence) config() Config {
	return Config{
		FindPlugin: func(context.Context, string) ([]dockerd.Plugin, error) { return []dockerd.Plugin{s.plugin}, nil },
		EngineRoot: func(context.Context, string) (string, error) { return s.root, nil },
		clock:      func() clockState { return clockState{known: true, synchronised: true} },
	}
}

var mebibytes = regexp.MustCompile(`\d+ MiB`)

// Each reason for which a plugin does not answer, as far as it can be seen from outside.
func TestDoctorOfASilentPlugin(t *testing.T) {
	const key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	var all strings.Builder
	for _, tt := range []struct {
		name  string
		f     func(s *silence, cfg *Config)
		wants []string
	}{
		{"disabled by somebody", func(*silence, *Config) {}, []string{"fail  plugin: the plugin ringlet:latest is disabled", "skip  start:", "ok    settings:", "ok    database:", "ok    disk:", "ok    clock:"}},
		{"it said why", func(s *silence, _ *Config) {
			s.says(lastwords.Name, "2026-11-21T11:00:00Z\ndatabase /data/ringlet.db: has schema 9\nand this is 1\n")
		}, []string{"fail  start: its process ended at 2026-11-21 11:00:00 UTC: database", "if docker plugin enable reported another error after that time"}},
		{"what it said was cut short", func(s *silence, _ *Config) { s.says(lastwords.Name, "") }, []string{"warn  start:"}},
		{"wrong settings", func(s *silence, _ *Config) {
			s.plugin.Env = []string{"RINGLET_TIMEOUT=abc", "RINGLET_KEY=xyz"}
		}, []string{"fail  settings: RINGLET_KEY:", "fail  settings: RINGLET_TIMEOUT=\"abc\":"}},
		{"wrong settings, which it said", func(s *silence, _ *Config) {
			s.plugin.Env = []string{"RINGLET_TIMEOUT=abc", "RINGLET_KEY=xyz"}
			err := errors.Join(config.Problems(config.Check(s.plugin.Env, os.Hostname, func(path string) string { return path }))...)
			s.says(lastwords.Name, "2026-11-21T11:00:00Z\n"+err.Error()+"\n")
		}, []string{"fail  start: its process ended at 2026-11-21 11:00:00 UTC: the settings below are wrong", "fail  settings: RINGLET_KEY:"}},
		{"its key file, where the plugin has it", func(s *silence, _ *Config) {
			s.plugin.Env = []string{"RINGLET_KEY_FILE=/data/keys"}
			s.says("keys", key)
		}, []string{"ok    settings:"}},
		{"its key file, in a directory of the host that it has", func(s *silence, _ *Config) {
			s.plugin.Env = []string{"RINGLET_KEY_FILE=/run/docker/host/keys"}
			s.plugin.Mounts = map[string]string{"/run/docker/host": s.data}
			s.says("keys", key)
		}, []string{"ok    settings:"}},
		{"no key file there", func(s *silence, _ *Config) {
			s.plugin.Env = []string{"RINGLET_KEY_FILE=/data/keys"}
		}, []string{"fail  settings: RINGLET_KEY_FILE"}},
		{"the engine's socket is elsewhere", func(s *silence, _ *Config) {
			s.plugin.Mounts = map[string]string{"/run/docker/host": filepath.Join(s.root, "none")}
		}, []string{"fail  mounts: the engine cannot start it: it mounts /", "/none of this host as /run/docker/host, and there is no such directory", "docker plugin set ringlet:latest docker.source="}},
		{"the socket is mounted itself", func(s *silence, _ *Config) {
			s.plugin.Mounts = map[string]string{"/run/docker/host": s.database()}
		}, []string{"/ringlet.db of this host as /run/docker/host, and that is not a directory"}},
		{"a damaged database", func(s *silence, _ *Config) { s.says(DatabaseName, strings.Repeat("x", 64<<10)) }, []string{"warn  database:"}},
		{"no database yet", func(s *silence, _ *Config) { s.lacks(s.database()) }, []string{"skip  database: there is none yet"}},
		{"no data on this host", func(s *silence, _ *Config) { s.lacks(s.data) }, []string{"skip  start:", "skip  database:", "skip  disk:"}},
		{"an engine on another host, as with DOCKER_HOST", func(s *silence, _ *Config) {
			s.lacks(s.plugin.Dir(s.root))
			s.plugin.Enabled = true
		}, []string{"fail  plugin: the plugin ringlet:latest is on another host"}},
		{"an engine that tells nothing", func(_ *silence, c *Config) {
			c.EngineRoot = func(context.Context, string) (string, error) { return "", errors.New("the engine is busy") }
		}, []string{"skip  start: cannot find where the engine keeps"}},
		{"a program for another machine", func(s *silence, _ *Config) {
			s.installs(elf.EM_S390)
		}, []string{"fail  architecture: the program of the plugin is for s390, but this machine is", "docker plugin install; the engine's log may have more: journalctl -u docker | grep aa"}},
		{"a program for this machine", func(s *silence, _ *Config) {
			own, err := elf.Open(self)
			if err != nil {
				s.t.Fatal(err)
			}
			defer own.Close()
			s.installs(own.Machine)
		}, []string{"ok    architecture: the program of the plugin is for this machine"}},
		{"enabled, with no socket", func(s *silence, _ *Config) { s.plugin.Enabled = true }, []string{"fail  plugin: the plugin cannot be reached at /run/docker/plugins/aa/"}},
	} {
		s := newSilence(t)
		cfg := s.config()
		tt.f(s, &cfg)
		cfg.columns = 10_000 // the directory is of this test, and its length differs
		got := ringlet(t, cfg, "doctor")
		if got.code != exitFailed || got.err != "" {
			t.Errorf("%s: code %d, said %s", tt.name, got.code, got.err)
		}
		for _, want := range tt.wants {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got.out)
			}
		}
		out := mebibytes.ReplaceAllString(strings.ReplaceAll(got.out, s.root, "/var/lib/docker"), "N MiB")
		fmt.Fprintf(&all, "# %s\n\n%s\n", tt.name, out)
	}
	golden.Check(t, "doctor-silent.txt", []byte(all.String()))
}

// What keeps a plugin from writing is told: it could not even leave a word of why it ended.
func TestDoctorOfADisk(t *testing.T) {
	well := syscall.Statfs_t{Bsize: 4096, Blocks: 1 << 21, Bavail: 1 << 20, Files: 1 << 20, Ffree: 1 << 19}
	for _, tt := range []struct {
		name  string
		f     func(st *syscall.Statfs_t)
		level string
		says  string
	}{
		{"room", func(*syscall.Statfs_t) {}, diagnosedOK, "4096 MiB are free for its data in /there"},
		{"full", func(st *syscall.Statfs_t) { st.Bavail = 3 << 8 }, diagnosedFail, "3 MiB are free"},
		{"read-only, as of a disk that fails", func(st *syscall.Statfs_t) { st.Flags = unix.ST_RDONLY | unix.ST_RELATIME }, diagnosedFail, "mounted read-only"},
		{"other options", func(st *syscall.Statfs_t) { st.Flags = unix.ST_RELATIME | unix.ST_NOSUID }, diagnosedOK, "MiB are free"},
		{"no inode left", func(st *syscall.Statfs_t) { st.Ffree = 0 }, diagnosedFail, "no inode left"},
		{"no inodes at all, as on btrfs", func(st *syscall.Statfs_t) { st.Files, st.Ffree = 0, 0 }, diagnosedOK, "MiB are free"},
		{"no limit, as in memory", func(st *syscall.Statfs_t) { st.Blocks, st.Bavail = 0, 0 }, diagnosedSkip, "does not report its free space"},
	} {
		st := well
		tt.f(&st)
		if got := room(st, "/there"); got.Check != "disk" || got.Level != tt.level || !strings.Contains(got.Text, tt.says) || (got.Next == "") != (tt.level == diagnosedOK || tt.level == diagnosedSkip) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// Somebody who holds the database and does not answer is named.
func TestDoctorOfAPluginThatHangs(t *testing.T) {
	s := newSilence(t)
	s.plugin.Enabled = true
	store, err := persist.Open(persist.Config{Path: s.database(), Schema: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	got := ringlet(t, s.config(), "doctor")
	if got.code != exitFailed || !strings.Contains(got.out, fmt.Sprint(os.Getpid())) || !strings.Contains(got.out, "end that process") {
		t.Errorf("%+v", got)
	}
}

// A socket that was named belongs to no plugin that could be looked at, and one that
// only root may open says nothing of the plugin.
func TestDoctorOfNoPlugin(t *testing.T) {
	s := newSilence(t)
	if got := ringlet(t, s.config(), "doctor", "--socket", "/nowhere"); got.code != exitFailed || got.out != "" || !strings.Contains(got.err, "no socket there") {
		t.Errorf("%+v", got)
	}
	tgt := target{plugin: s.plugin}
	if tgt.silent(nil) || tgt.silent((&client{}).failure(os.ErrPermission)) || tgt.silent(context.Canceled) {
		t.Error("taken for a plugin that does not answer")
	}
}

// What can be had of a plugin that does not answer is bundled, without its secrets.
func TestBundleOfASilentPlugin(t *testing.T) {
	s := newSilence(t)
	s.plugin.Env = []string{"RINGLET_NAME=host-a", "RINGLET_KEY=Sup3rS3cr3t", "RINGLET_KYE=Sup3rS3cr3t", "RINGLET_TOKEN=Sup3rS3cr3t", "LOG_LEVEL="}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if got := ringlet(t, s.config(), "bundle", "--out", file); got.code != 0 || !strings.Contains(got.out, "also add the") {
		t.Fatalf("%+v", got)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parts := unpackFrom(t, f, "")
	for name, wants := range map[string][]string{
		"plugin.json": {`"name": "ringlet:latest"`, `"RINGLET_NAME=host-a"`, `"RINGLET_KEY=(hidden)"`, `"RINGLET_KYE=(hidden)"`, `"RINGLET_TOKEN=(hidden)"`, `"LOG_LEVEL="`},
		"doctor.json": {"is disabled", "RINGLET_KYE"},
	} {
		for _, want := range wants {
			if !strings.Contains(parts[name], want) {
				t.Errorf("%s lacks %s:\n%s", name, want, parts[name])
			}
		}
		if strings.Contains(parts[name], "Sup3r") {
			t.Errorf("%s has a secret:\n%s", name, parts[name])
		}
	}
	if len(parts) != 2 {
		t.Errorf("the bundle has %d parts", len(parts))
	}
}
