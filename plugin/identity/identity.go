// Package identity tells one machine, one start of it and one file of a database from all others, by what outlives the plugin's data:
// a peer whose database is lost is known again, and a copy of a database on another machine is found out.
//
// It refuses to know what follows: who takes over whose addresses, and what a copied database may do.
package identity

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// Machine returns a hash of what tells this engine from all others and
// outlives the plugin's database: the machine, the engine's data directory on
// it, and the name of the peer. A peer whose database is new takes over the
// space of one with the same ID that is heard of no more. It is 0 where the
// machine cannot be told.
func Machine(name string) uint64 {
	machine := machineText()
	if machine == "" {
		return 0
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return 0
	}
	root := dockerd.DataRoot(f)
	_ = f.Close() // it was only read
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%s\n%s\n", machine, root, name)
	return max(h.Sum64(), 1)
}

// Place returns what tells a database from its copies: the number of its file
// and the machine. It is empty if the file cannot be looked at, or nobody knows
// what the machine is called.
func Place(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	machine, err := firmwareText()
	if err != nil {
		return ""
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(machine)) // never fails
	return fmt.Sprintf("inode %d, machine %016x", file.Ino, h.Sum64())
}

// machineText returns what the firmware, the system or, where neither can be
// read from inside the plugin, the first network card says of the machine.
func machineText() string {
	if text, err := firmwareText(); err != nil || text != "" {
		return text
	}
	return cardText()
}

// firmwareText returns what the firmware or the system says of the machine,
// nothing where neither is there to be read. An error says that it may be another
// time, as for a process that has too many files open: else the machine would seem
// to be another one.
func firmwareText() (string, error) {
	for _, file := range []string{"/sys/class/dmi/id/product_uuid", "/etc/machine-id", cpuInfo} {
		b, err := os.ReadFile(file)
		text := string(bytes.TrimSpace(b))
		if file == cpuInfo {
			text = cpuSerial(text)
		}
		switch {
		case err == nil && text != "":
			return text, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", err
		}
	}
	return "", nil
}

// cpuInfo is where small boards have the serial number of their processor. Cards that were copied differ in nothing else.
const cpuInfo = "/proc/cpuinfo"

// cpuSerial returns the serial number of a processor, empty if it has none.
func cpuSerial(info string) string {
	for line := range strings.Lines(info) {
		name, number, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "Serial" && strings.Trim(number, "0 \t\n") != "" {
			return strings.TrimSpace(number)
		}
	}
	return ""
}

// cardText returns the address of the first network card that no engine or hypervisor has made: their interfaces come and go.
func cardText() string {
	cards, err := kernelnet.Interfaces()
	if err != nil {
		return ""
	}
	for i := range cards {
		if len(cards[i].HardwareAddr) > 0 && !kernelnet.IsVirtual(cards[i].Name) {
			return cards[i].HardwareAddr.String()
		}
	}
	return ""
}

// HostStart returns when the host started, by its clock as it stands now, and by the clock
// that nobody sets: later by as long as the host has been suspended since. The zero time
// where the kernel does not say.
func HostStart() time.Time {
	var up unix.Timespec
	for {
		now := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &up); err != nil {
			return time.Time{}
		}
		if time.Since(now) < time.Millisecond { // nobody came between the two
			return now.Add(-time.Duration(up.Nano())).Round(0)
		}
	}
}

// HostBoot returns what tells one start of the host from all others, nothing
// where the kernel does not say.
func HostBoot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}
