package e2e

import (
	"fmt"
	"path/filepath"
	"time"
)

// RegistryAddress is where a registry listens, inside its host only: the engine speaks plain HTTP to loopback.
const RegistryAddress = "127.0.0.1:5000"

const registryConfig = `version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
http: {addr: %q}
`

// StartRegistry starts an image and plugin registry on the host, at [RegistryAddress], and returns when it answers. It
// ends with the host. The test is skipped where the program is not installed.
func (e *Engine) StartRegistry() {
	e.t.Helper()
	need(e.t, "docker-registry", "curl")
	file := filepath.Join(e.dir, "registry.yml")
	e.write(file, fmt.Sprintf(registryConfig, filepath.Join(e.dir, "registry"), RegistryAddress))
	log := newLog()
	p, err := e.spawn(log, "docker-registry", "serve", file)
	if err != nil {
		e.t.Fatal(err)
	}
	Eventually(e.t, time.Minute, "the registry answers", func() bool {
		if !p.running() {
			e.t.Fatalf("the registry ended:\n%s", log.tail(20))
		}
		_, err := e.Try("curl", "--silent", "--fail", "http://"+RegistryAddress+"/v2/")
		return err == nil
	})
}
