package e2e

import (
	"os"
	"path/filepath"
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
	for _, step := range []string{"run", "run", "rebuild", "run", "uninstall", "uninstall", "run", "uninstall"} {
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
			for _, want := range []string{"10.77.0.", "answer from 10.77.0.", "make uninstall"} {
				if !strings.Contains(out, want) {
					t.Errorf("make run does not show %q:\n%s", want, out)
				}
			}
		}
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

// make push works beside an installed plugin of the same build, more than once, and leaves nothing behind; what it
// pushed can be installed.
func TestEngineMakePush(t *testing.T) {
	t.Parallel()
	m := newMaker(Start(t, Config{Name: "host-a"}))
	m.StartRegistry()
	m.InstallPlugin()
	before := inventory(m.Engine)
	name := RegistryAddress + "/ringlet:1.0-amd64"
	m.run("PLUGIN="+name, "plugin.sh", "push")
	m.run("PLUGIN="+name, "plugin.sh", "push")
	if got := inventory(m.Engine); got != before {
		t.Errorf("make push left in the engine: %s, before: %s", got, before)
	}
	m.Docker("plugin", "disable", Plugin)
	m.Docker("plugin", "rm", Plugin)
	m.Docker("plugin", "install", "--alias", Plugin, "--grant-all-permissions", name)
	makeNetwork(m.Engine, "net", "10.77.0.0/24")

	_, err := m.try(plugin, "plugin.sh", "push")
	refused(t, err, "names no registry")
}
