package cli

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// silent reports whether an error says that a plugin which the engine has does not
// answer, so that it can be looked at from outside.
func (t target) silent(err error) bool {
	if t.plugin.ID == "" || errors.Is(err, fs.ErrPermission) || errors.Is(err, context.Canceled) {
		return false
	}
	_, disabled := errors.AsType[*disabledError](err)
	_, noAnswer := errors.AsType[*noAnswerError](err)
	return disabled || noAnswer
}

// diagnoseSilent looks from outside at a plugin that does not answer, as err says.
func (a *app) diagnoseSilent(ctx context.Context, t target, err error) []diagnosis {
	found := []diagnosis{unanswering(t, err)}
	root, err := a.cfg.EngineRoot(ctx, t.host)
	if err != nil {
		return append(found, diagnosis{"start", diagnosedSkip, "cannot find where the engine keeps the plugin's data: " + err.Error(), ""})
	}
	dir := t.plugin.Dir(root)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return []diagnosis{{"plugin", diagnosedFail, fmt.Sprintf("the plugin %s is on another host: the engine that was asked keeps it in %s, and there is no such directory here", t.plugin.Name, dir), "run ringlet on that host; DOCKER_HOST or --host says which engine is asked"}}
	}
	data := t.plugin.Data(root)
	found = append(found, mounts(t.plugin)...)
	found = append(found, architecture(t.plugin, t.plugin.Path(root, entrypoint), self))
	set := settings(t.plugin.Env, func(path string) string { return t.plugin.Path(root, path) })
	found = append(found, lastStart(t.plugin, data, set))
	if crash, err := lastwords.ReadCrash(data); err == nil {
		found = append(found, crashOf(a.cfg.Now(), crash))
	}
	found = append(found, set...)
	return append(found, database(data), disk(data), clock(a.cfg.clock()))
}

// unanswering says that the plugin does not answer.
func unanswering(t target, err error) diagnosis {
	if _, disabled := errors.AsType[*disabledError](err); disabled {
		return diagnosis{"plugin", diagnosedFail, fmt.Sprintf("the plugin %s is disabled: by an operator, or by the engine, which no longer starts a plugin whose process ended several times within seconds", t.plugin.Name), "fix what is reported below, if anything, then run docker plugin enable " + t.plugin.Name}
	}
	return diagnosis{"plugin", diagnosedFail, err.Error(), fmt.Sprintf("fix what is reported below, if anything; docker plugin disable --force %s and docker plugin enable %[1]s restart it, and running containers go on", t.plugin.Name)}
}

// engineLog is where to find a reason that is nowhere else: the engine logs it with the ID of the plugin.
func engineLog(p dockerd.Plugin) string {
	return "the engine's log may have more: journalctl -u docker | grep " + p.ID[:min(len(p.ID), 12)]
}

const (
	entrypoint = "/ringlet"       // of the plugin, as its config.json has it
	self       = "/proc/self/exe" // this program, which runs here
)

// architecture compares the architecture of the plugin's program with that of this one. The engine starts a plugin of
// another one, its process ends at once, and leaves no word.
func architecture(p dockerd.Plugin, program, own string) diagnosis {
	theirs, err := machineOf(program)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return diagnosis{"architecture", diagnosedSkip, "only root can read " + program, "try again with sudo"}
	case err != nil:
		return diagnosis{"architecture", diagnosedSkip, "the program of the plugin cannot be read: " + err.Error(), ""}
	}
	ours, err := machineOf(own)
	if err != nil || theirs == ours {
		return diagnosis{"architecture", diagnosedOK, "the program of the plugin is for this machine: " + theirs, ""}
	}
	return diagnosis{
		"architecture", diagnosedFail, fmt.Sprintf("the program of the plugin is for %s, but this machine is %s", theirs, ours),
		"install the plugin from an image for this machine: docker plugin rm --force " + p.Name + ", then docker plugin install; " + engineLog(p),
	}
}

// machineOf returns the architecture that a program is for.
func machineOf(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", err // it is shown as it is
	}
	defer func() { _ = f.Close() }()
	return strings.ToLower(strings.TrimPrefix(f.Machine.String(), "EM_")), nil
}

// lastStart tells why the last process ended. It leaves out the settings that still are wrong, which are reported for themselves.
func lastStart(p dockerd.Plugin, data string, set []diagnosis) diagnosis {
	words, err := lastwords.Read(data)
	switch {
	case err == nil:
		lines := strings.Split(words.Text, "\n")
		others := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return slices.ContainsFunc(set, func(d diagnosis) bool { return d.Level == diagnosedFail && d.Text == strings.TrimSpace(line) })
		})
		if len(others) < len(lines) {
			others = append(others, "the settings below are wrong")
		}
		text := strings.Join(others, "; ")
		return diagnosis{"start", diagnosedFail, "its process ended at " + words.At.UTC().Format(clockLayout) + ": " + text, "fix that, unless you did since; if docker plugin enable reported another error after that time, fix that one first: the engine did not start the process then"}
	case errors.Is(err, fs.ErrPermission):
		return diagnosis{"start", diagnosedSkip, "only root can look into " + data, "try again with sudo"}
	case errors.Is(err, fs.ErrNotExist):
		return diagnosis{"start", diagnosedSkip, "its last process ended on request, or left no reason", engineLog(p)}
	}
	return diagnosis{"start", diagnosedWarn, "the reason why its last process ended cannot be read: " + err.Error(), engineLog(p)}
}

// mounts tells what the engine cannot give the plugin: it then refuses the start, and the plugin's last process
// knows nothing of it.
func mounts(p dockerd.Plugin) []diagnosis {
	var found []diagnosis
	for _, at := range slices.Sorted(maps.Keys(p.Mounts)) {
		source, next := p.Mounts[at], "create it while the plugin is disabled"
		if at == filepath.Dir(DefaultDockerSocket) {
			next = fmt.Sprintf("docker plugin set %s docker.source=/var/run, or the directory of this host that has docker.sock", p.Name)
		}
		switch info, err := os.Stat(source); {
		case errors.Is(err, fs.ErrNotExist):
			found = append(found, diagnosis{"mounts", diagnosedFail, fmt.Sprintf("the engine cannot start it: it mounts %s of this host as %s, and there is no such directory", source, at), next})
		case err == nil && !info.IsDir():
			found = append(found, diagnosis{"mounts", diagnosedFail, fmt.Sprintf("the engine cannot start it: it mounts %s of this host as %s, and that is not a directory", source, at), next})
		}
	}
	return found
}

// settings tells what a start would refuse.
func settings(env []string, at func(path string) string) []diagnosis {
	var found []diagnosis
	for _, problem := range config.Problems(config.Check(env, os.Hostname, at)) {
		found = append(found, diagnosis{"settings", diagnosedFail, problem.Error(), "docker plugin set changes it while the plugin is disabled"})
	}
	if len(found) == 0 {
		found = append(found, diagnosis{"settings", diagnosedOK, "all settings have valid values", ""})
	}
	return found
}

// database checks the file without changing it.
func database(data string) diagnosis {
	file := filepath.Join(data, DatabaseName)
	err := persist.CheckFile(file)
	switch {
	case err == nil:
		return diagnosis{"database", diagnosedOK, DatabaseName + " is sound", ""}
	case errors.Is(err, fs.ErrNotExist):
		return diagnosis{"database", diagnosedSkip, "there is none yet at " + file, ""}
	case errors.Is(err, fs.ErrPermission):
		return diagnosis{"database", diagnosedSkip, "only root can read " + file, "try again with sudo"}
	case errors.Is(err, persist.ErrLocked):
		return diagnosis{"database", diagnosedFail, err.Error(), "a process has it open and does not answer: end that process"}
	case errors.Is(err, persist.ErrDamaged):
		return diagnosis{"database", diagnosedWarn, err.Error(), "keep a copy of that directory; the next start sets the file aside, begins a new database, and takes in the containers of the engine"}
	}
	return diagnosis{"database", diagnosedFail, err.Error(), ""}
}

// LeastDisk is how much of the disk a peer should find free, in bytes: the log, a
// copy of a database of some size while it grows, and the journal.
const LeastDisk = 64 << 20

// disk looks for room.
func disk(data string) diagnosis {
	var st syscall.Statfs_t
	if err := syscall.Statfs(data, &st); err != nil {
		return diagnosis{"disk", diagnosedSkip, fmt.Sprintf("%s cannot be read: %v", data, err), ""}
	}
	return room(st, data)
}

// room says whether a file system can be written. If its disk fails, the kernel makes it
// read-only; then there are no last words either.
func room(st syscall.Statfs_t, data string) diagnosis {
	const mib = 1 << 20
	free := st.Bavail * uint64(st.Bsize) // a block has a size
	text := fmt.Sprintf("%d MiB are free for its data in %s", free/mib, data)
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return diagnosis{"disk", diagnosedFail, "its data in " + data + " cannot be written: that file system is mounted read-only", "see in dmesg whether the disk fails, and mount it read-write again"}
	case st.Blocks == 0: // as of one in memory without a limit
		return diagnosis{"disk", diagnosedSkip, "the file system of its data in " + data + " does not report its free space", ""}
	case free < LeastDisk:
		return diagnosis{"disk", diagnosedFail, text, "free disk space: ringlet hands out no address that it cannot write down first"}
	case st.Files > 0 && st.Ffree == 0:
		return diagnosis{
			"disk", diagnosedFail, "no file can be created for its data in " + data + ": that file system has no inode left",
			"remove files from it; df -i counts them",
		}
	}
	return diagnosis{"disk", diagnosedOK, text, ""}
}
