package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/plugin/dockerd"
)

// machineID returns a hash of what tells this engine from all others and
// outlives the plugin's database: the machine, the engine's data directory on
// it, and the name of the peer. A peer whose database is new takes over the
// space of one with the same ID that is heard of no more. It is 0 where the
// machine cannot be told.
func machineID(name string) uint64 {
	machine := machineText()
	if machine == "" {
		return 0
	}
	root := ""
	if f, err := os.Open("/proc/self/mountinfo"); err == nil {
		root = dockerd.DataRoot(f)
		_ = f.Close() // it was only read
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%s\n%s\n", machine, root, name)
	return max(h.Sum64(), 1)
}

// machineText returns what the firmware, the system or, where neither can be
// read from inside the plugin, the first network card says of the machine.
func machineText() string {
	for _, file := range []string{"/sys/class/dmi/id/product_uuid", "/etc/machine-id"} {
		if b, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(b)) > 0 {
			return string(bytes.TrimSpace(b))
		}
	}
	cards, err := net.Interfaces()
	if err != nil {
		return ""
	}
	slices.SortFunc(cards, func(a, b net.Interface) int { return a.Index - b.Index })
	for _, c := range cards {
		made := func(prefix string) bool { return strings.HasPrefix(c.Name, prefix) }
		if len(c.HardwareAddr) == 0 || slices.ContainsFunc([]string{"docker", "br-", "veth", "cni", "virbr"}, made) {
			continue
		}
		return c.HardwareAddr.String()
	}
	return ""
}

// hostBoot returns what tells one start of the host from all others, nothing
// where the kernel does not say.
func hostBoot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}
