package e2e

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A maker does on a host what make does after building, from a build folder of its own.
type maker struct {
	*Engine
	build string
}

func newMaker(e *Engine) maker {
	e.t.Helper()
	m := maker{Engine: e, build: e.t.TempDir()}
	for _, file := range []string{"ringlet", "demo.tar"} {
		if err := os.Symlink(Built(e.t, file), filepath.Join(m.build, file)); err != nil {
			e.t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(m.build, "plugin"), os.DirFS(Built(e.t, "plugin"))); err != nil {
		e.t.Fatal(err)
	}
	return m
}

// try runs a script of the folder scripts; setting has the form NAME=value.
func (m maker) try(setting, name string, args ...string) (string, error) {
	words := []string{setting, "BUILD=" + m.build, filepath.Join(root(m.t), "scripts", name)}
	return m.Try("env", append(words, args...)...)
}

func (m maker) run(setting, name string, args ...string) string {
	m.t.Helper()
	out, err := m.try(setting, name, args...)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// rebuild makes another build of the plugin: the same program with another description.
func (m maker) rebuild(description string) {
	m.t.Helper()
	m.Run("sed", "-i", `0,/"description": "[^"]*"/s//"description": "`+description+`"/`, filepath.Join(m.build, "plugin", "config.json"))
	m.Run("touch", "-d", "2001-01-01", filepath.Join(m.build, "plugin", "rootfs", "data")) // no byte-identical content
}

const plugin = "PLUGIN=" + Plugin

// make run works, works again, also after a new build, and make uninstall removes all that it made.
func TestEngineMakeRun(t *testing.T) {
	t.Parallel()
	m := newMaker(Start(t, Config{Name: "host-a"}))
	empty := inventory(m.Engine)
	shown := newReader(t).blocks["TestEngineMakeRun"].Shown // by the README, of the first time
	if len(shown) == 0 {
		t.Fatal("the README does not show what make run prints")
	}
	for i, step := range []string{"run", "run", "rebuild", "run", "uninstall", "uninstall", "run", "uninstall"} {
		switch step {
		case "rebuild":
			m.rebuild("ringlet v9 (build 0123456789ab): newer")
		case "uninstall":
			out := m.run(plugin, "plugin.sh", "uninstall")
			if got := inventory(m.Engine); got != empty {
				t.Fatalf("make uninstall left in the engine: %s\n%s", got, out)
			}
		default:
			out := m.run(plugin, "run.sh")
			for _, want := range shown {
				if !shows(out, want) {
					t.Errorf("make run does not show %q:\n%s", want, out)
				}
			}
			shown = []string{"✓ answer", "make uninstall"}
			if i == 0 { // what the next one replaces
				shown = append(shown, "removed the ringlet-demo-1 of an earlier run")
			}
		}
	}
}

// Containers of the user's own on what make run made: on its network they keep that and the plugin, and of its image they
// keep the image alone. Both times make uninstall names them, and it goes on where they are gone.
func TestEngineMakeUninstallBesideContainers(t *testing.T) {
	t.Parallel()
	m := newMaker(Start(t, Config{Name: "host-a"}))
	empty := inventory(m.Engine)
	m.run(plugin, "run.sh")
	m.Docker("run", "--detach", "--name", "mine", "--network", "ringlet-demo", "ringlet-demo")
	_, err := m.try(plugin, "plugin.sh", "uninstall")
	refused(t, err, "network ringlet-demo", "docker rm --force mine")
	if got := m.Docker("plugin", "inspect", "--format", "{{.Enabled}}", Plugin); got != "true" {
		t.Errorf("the plugin is enabled: %s", got)
	}

	m.Docker("network", "disconnect", "--force", "ringlet-demo", "mine")
	_, err = m.try(plugin, "plugin.sh", "uninstall")
	refused(t, err, "image ringlet-demo", "docker rm --force mine")
	if got := m.Docker("plugin", "ls", "--quiet"); got != "" {
		t.Errorf("a container of the demo's image keeps the plugin %s", got)
	}

	m.Docker("rm", "--force", "mine")
	m.run(plugin, "plugin.sh", "uninstall")
	if got := inventory(m.Engine); got != empty {
		t.Errorf("make uninstall left in the engine: %s", got)
	}
}

// inventory is what an engine has.
func inventory(e *Engine) string {
	e.t.Helper()
	return e.Docker("system", "info", "--format", "{{.Containers}} containers {{.Images}} images") + ", networks " +
		strings.ReplaceAll(e.Docker("network", "ls", "--format", "{{.Name}}"), "\n", " ") + ", plugins " +
		e.Docker("plugin", "ls", "--quiet")
}

// make install leaves a plugin of another build, or of somebody else, as it is, and says what to do.
func TestEngineMakeInstall(t *testing.T) {
	t.Parallel()
	m := newMaker(Start(t, Config{Name: "host-a"}))
	m.run(plugin, "plugin.sh", "install")
	m.run(plugin, "plugin.sh", "install")
	makeNetwork(m.Engine, "precious", "10.78.0.0/24")
	_, err := m.try(plugin, "plugin.sh", "uninstall")
	refused(t, err, "precious")

	m.rebuild("ringlet v9 (build 0123456789ab): newer")
	_, err = m.try(plugin, "plugin.sh", "install")
	refused(t, err, "REPLACE=yes")
	_, err = m.try(plugin, "run.sh")
	refused(t, err, "REPLACE=yes")
	_, err = m.try("REPLACE=yes", "plugin.sh", "install")
	refused(t, err, "precious")
	m.Docker("network", "rm", "precious")
	m.run("REPLACE=yes", "plugin.sh", "install")
	if got := m.Docker("plugin", "inspect", "--format", "{{.Enabled}} {{.Config.Description}}", Plugin); !strings.HasPrefix(got, "true ringlet v9") {
		t.Errorf("not replaced: %s", got)
	}
	m.run(plugin, "plugin.sh", "uninstall")

	m.rebuild("a plugin of somebody else")
	m.Docker("plugin", "create", Plugin, filepath.Join(m.build, "plugin"))
	for _, command := range []string{"install", "uninstall"} {
		_, err = m.try(plugin, "plugin.sh", command)
		refused(t, err, "is another plugin")
	}
}

// The plugin is built for each architecture, statically. make push pushes one tag for each, and the one without a name for
// this machine's, beside an installed plugin and more than once, and leaves nothing behind; what it pushed can be installed
// where it runs.
func TestEngineMakePush(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		build := exec.CommandContext(t.Context(), "make", "--directory", root(t), "build/plugin", "OUT="+out, "ARCH="+arch)
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("make build/plugin ARCH=%s: %v\n%s", arch, err, text)
		}
		dir := out
		if arch != runtime.GOARCH {
			dir = filepath.Join(out, arch)
		}
		isStatic(t, filepath.Join(dir, "plugin", "rootfs", "ringlet"), machine)
	}

	m := newMaker(Start(t, Config{Name: "host-a"}))
	m.StartRegistry()
	m.InstallPlugin()
	before := inventory(m.Engine)
	name := RegistryAddress + "/ringlet:1.0"
	push := append(goEnviron(t), "make", "--directory", root(t), "push", "OUT="+out)
	for _, tag := range []string{name, name, name + "-arm64"} {
		m.Run("env", append(push, "PLUGIN="+tag)...)
	}
	var has struct{ Tags []string }
	if err := json.Unmarshal([]byte(m.Run("curl", "--silent", "--fail", "http://"+RegistryAddress+"/v2/ringlet/tags/list")), &has); err != nil {
		t.Fatal(err)
	}
	slices.Sort(has.Tags)
	if want := []string{"1.0", "1.0-amd64", "1.0-arm64"}; !slices.Equal(has.Tags, want) {
		t.Errorf("the registry has %v, want %v", has.Tags, want)
	}
	if got := inventory(m.Engine); got != before {
		t.Errorf("make push left in the engine: %s, before: %s", got, before)
	}
	m.Docker("plugin", "disable", Plugin)
	m.Docker("plugin", "rm", Plugin)
	for _, tag := range []string{name, name + "-" + runtime.GOARCH} {
		m.Docker("plugin", "install", "--alias", Plugin, "--grant-all-permissions", tag)
		makeNetwork(m.Engine, "net", "10.77.0.0/24")
		m.Docker("network", "rm", "net")
		m.Docker("plugin", "rm", "--force", Plugin)
	}

	_, err := m.try(plugin, "plugin.sh", "push")
	refused(t, err, "names no registry")
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	m.build = filepath.Join(out, other)
	_, err = m.try(plugin, "plugin.sh", "install")
	refused(t, err, "is for "+other+", and the engine runs on "+runtime.GOARCH)
}

// isStatic checks what a program was built for, and that it needs no other file to run.
func isStatic(t *testing.T, program string, machine elf.Machine) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != machine || f.Type != elf.ET_EXEC {
		t.Errorf("%s is a %v for %v, want a program for %v", program, f.Type, f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically", program)
		}
	}
}

// goEnviron is what a host, which has nothing of the user's, needs to build with the Go of the test.
func goEnviron(t *testing.T) []string {
	t.Helper()
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return env
}
