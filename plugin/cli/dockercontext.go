package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dockerCall is what the docker command says, before the name of this program, of the
// engine that is meant.
type dockerCall struct {
	context string // empty: none was named
	config  string // folder of docker's configuration; empty: the usual one
}

// defaultContext is the context that always is there: what DOCKER_HOST says, or the
// engine's usual socket.
const defaultContext = "default"

// engine returns the address of the engine that the docker command speaks to where no
// --host says so; empty means what DOCKER_HOST says, or the usual socket. As with
// docker itself --context comes first, then DOCKER_HOST, DOCKER_CONTEXT, and what
// docker context use was last given.
func (d dockerCall) engine(getenv func(string) string) (string, error) {
	name := d.context
	if name == "" && getenv("DOCKER_HOST") != "" {
		return "", nil
	}
	dir := d.config
	if dir == "" {
		dir = getenv("DOCKER_CONFIG")
	}
	if dir == "" {
		dir = filepath.Join("/", getenv("HOME"), ".docker") // without HOME there is none
	}
	if name == "" {
		name = getenv("DOCKER_CONTEXT")
	}
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		if err := readJSON(filepath.Join(dir, "config.json"), &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("which engine docker means cannot be read: %w; mend that file, or name the engine with --host", err)
		}
		name = config.CurrentContext
	}
	if name == "" || name == defaultContext {
		return "", nil
	}
	return contextHost(dir, name)
}

// contextHost returns the engine's address in a docker context.
func contextHost(dir, name string) (string, error) {
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	id := sha256.Sum256([]byte(name))
	err := readJSON(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(id[:]), "meta.json"), &meta)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no docker context %q: docker context ls shows those that there are", name)
	case err != nil:
		return "", fmt.Errorf("docker context %q cannot be read: %w; create it again with docker context create, or name the engine with --host", name, err)
	}
	host := meta.Endpoints["docker"].Host
	if host != "" && !strings.HasPrefix(host, "unix://") {
		return "", fmt.Errorf("docker context %q leads to %s, and ringlet reaches a plugin on its own host alone: run it there, or use another context, as with docker --context %s ringlet", name, host, defaultContext)
	}
	return host, nil
}

// readJSON reads a file into v. Its errors name the file.
func readJSON(file string, v any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
