package config

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// prefix is what all our names begin with but LOG_LEVEL, which keeps the name
// that people know from other plugins.
const prefix = "RINGLET_"

// ignored are the names of ours that may be in the environment without any
// meaning here: what the command line reads. A setting that is retired moves
// here and stays for ever, since an upgrade of the plugin keeps the values of
// settings that the new manifest no longer has.
func ignored() []string { return []string{"RINGLET_SOCKET"} }

// Load reads the settings from an environment in the form of [os.Environ].
// host returns the name of this host and is asked only if RINGLET_NAME is not
// set; [os.Hostname] does. The file named by RINGLET_KEY_FILE is read.
//
// If anything is wrong the Config is not to be used, and the error joins an
// [*Error] for each setting that is; [Problems] takes them apart.
func Load(environ []string, host func() (string, error)) (Config, error) {
	return load(environ, source{host: host, readFile: readKeyFile})
}

// Check returns what [Load] would refuse in another process: a managed plugin's,
// whose files lie elsewhere on this host, where at says. A key file that the
// caller may not read is not looked at.
func Check(environ []string, host func() (string, error), at func(path string) string) error {
	_, err := load(environ, source{host: host, readFile: func(path string) ([]byte, error) {
		content, err := readKeyFile(at(path))
		if errors.Is(err, fs.ErrPermission) {
			return []byte(base64.StdEncoding.EncodeToString(make([]byte, KeySize))), nil // some key
		}
		return content, err
	}})
	return err
}

// Hide returns the environment with the values of secrets replaced, and those that
// have a key where none belongs.
func Hide(environ []string) []string {
	out := slices.Clone(environ)
	for i, entry := range out {
		name, value, _ := strings.Cut(entry, "=")
		known := slices.Contains(names(), name)
		if value != "" && (!known || setting(name).Secret || hasKey(value)) {
			out[i] = name + "=(hidden)" // one that is not known may be a misspelled secret
		}
	}
	return out
}

// source is where values come from that are not in the environment.
type source struct {
	host     func() (string, error)
	readFile func(path string) ([]byte, error)
}

func load(environ []string, src source) (Config, error) {
	env, problems := read(environ)
	var cfg Config
	bad := make(map[string]bool)
	for _, s := range table() {
		value := env[s.Name]
		if value == "" {
			value = s.Default
		}
		err := s.misplaced(value)
		if err == nil {
			err = s.parse(&cfg, value, src)
		}
		if err != nil {
			problems = append(problems, s.problem(env[s.Name], err))
			bad[s.Name] = true
		}
	}
	cfg.DeriveULA = env["RINGLET_UNIVERSE"] == ""
	problems = append(problems, cfg.check(env, bad)...)
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return cfg, nil
}

// read picks our settings out of the environment, their values without
// surrounding space, and reports the names that are none. The last of several
// equal names counts, as it does for a process that is started so.
func read(environ []string) (env map[string]string, problems []error) {
	env = make(map[string]string)
	known := names()
	var unknown []string
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok || slices.Contains(ignored(), name):
		case slices.Contains(known, name):
			env[name] = strings.TrimSpace(value)
		case strings.HasPrefix(name, prefix):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range slices.Compact(unknown) {
		problems = append(problems, unknownName(name, known))
	}
	return env, problems
}
