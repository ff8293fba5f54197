package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// diagnosis is one thing that was looked at.
type diagnosis struct {
	// ports, key, clock, engine, names, advertise, mtu, host-names, version, crash, problems; version,
	// database, crash, clock of one that waits for its database; of a plugin that does not answer: plugin, mounts, start,
	// settings, database, disk, clock
	Check string `json:"check"`
	Level string `json:"level"` // ok, warn, fail, skip
	Text  string `json:"text"`
	Next  string `json:"next"`
}

// Levels of a [diagnosis].
const (
	diagnosedOK   = "ok"
	diagnosedWarn = "warn"
	diagnosedFail = "fail"
	diagnosedSkip = "skip"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"diagnose", "diag", "health", "preflight"},
		Short:      "Diagnose ports, key, clock, engine and MTU",
		GroupID:    groupStatus,
		Long: `Check what ringlet needs on this host and its network. Each finding says what to
do:

    version     this program and the plugin are the same release
    engine      its version, and whether the plugin reaches it
    names       the engine sends the names of containers
    key         traffic between hosts is encrypted
    clock       the kernel says that it is synchronised
    ports       this host could open its port; other hosts answer over TCP and
                UDP; if no host is known yet, those in RINGLET_JOIN over TCP
    advertise   this host has the address at which others reach it
    mtu         packets between hosts fit
    host-names  no two hosts have the same name
    crash       the plugin has not crashed
    problems    ringlet status reports none

If the plugin waits for its database, for example because the disk is full,
doctor says why. If a managed plugin does not start or does not answer, doctor
checks it from outside:

    mounts        the engine can mount them
    architecture  the program of the plugin is for this machine
    start         why the last process ended
    settings      they have valid values
    database      it is sound
    disk          it has room

Exit code 1: something does not work. Exit code 3: something needs attention.`,
		Example: `  ringlet doctor
  ringlet doctor -o json | jq '.[] | select(.level != "ok")'`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.flushed(a.doctor(cmd.Context())) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	t, err := a.find(ctx)
	var found []diagnosis
	if err == nil {
		c := newClient(t)
		defer c.close()
		found, err = a.diagnose(ctx, c)
	}
	if t.silent(err) {
		found, err = a.diagnoseSilent(ctx, t, err), nil
	}
	if err != nil {
		return err
	}
	if err := a.show(found, func() { a.view.diagnoses(found) }); err != nil {
		return err
	}
	switch worst := worstOf(found); worst {
	case diagnosedFail:
		return exitError(exitFailed)
	case diagnosedWarn:
		return exitError(exitDegraded)
	}
	return nil
}

func worstOf(found []diagnosis) string {
	worst := diagnosedOK
	for _, d := range found {
		if d.Level == diagnosedFail || d.Level == diagnosedWarn && worst == diagnosedOK {
			worst = d.Level
		}
	}
	return worst
}

// diagnose looks at everything.
func (a *app) diagnose(ctx context.Context, c *client) ([]diagnosis, error) {
	var about admin.About
	var st ipam.Status
	if err := c.get(ctx, path("about"), &about); err != nil {
		return nil, err
	}
	if err := c.get(ctx, path("status"), &st); err != nil {
		return nil, err
	}
	text, err := c.text(ctx, http.MethodGet, "/v1/crash")
	crash := crashed(a.cfg.Now(), string(text), err)
	if p, waits := problemOf(st, "database-unavailable"); waits { // and nothing more is known
		return []diagnosis{versions(a.cfg.Version, about), {"database", diagnosedFail, p.Text, p.Next}, crash, clock(a.cfg.clock())}, nil
	}
	found := []diagnosis{versions(a.cfg.Version, about), engineAge(about.Engine, st), names(about), keyed(about, st), clock(a.cfg.clock())}
	found = append(found, a.ports(ctx, about, st)...)
	return append(found, udp(st), a.mtu(about), sameNames(st), crash, problems(st)), nil
}

// crashFresh is how long a crash is something to look at.
const crashFresh = 7 * 24 * time.Hour

// crashed tells of the last crash of a process, of which there is this text, or of
// which err says why nothing is known.
func crashed(now time.Time, text string, err error) diagnosis {
	if err == nil && text == "" {
		return diagnosis{"crash", diagnosedOK, "no process is known to have crashed", ""}
	}
	var crash lastwords.Crash
	if err == nil {
		crash, err = lastwords.ParseCrash(text)
	}
	if err != nil {
		return diagnosis{"crash", diagnosedSkip, "whether a process has crashed is not known: " + err.Error(), ""}
	}
	return crashOf(now, crash)
}

func crashOf(now time.Time, crash lastwords.Crash) diagnosis {
	what := fmt.Sprintf("ringlet %s crashed at %s: %s", crash.Version, crash.At.UTC().Format(clockLayout), crash.Headline())
	if now.Sub(crash.At) > crashFresh {
		return diagnosis{"crash", diagnosedOK, what, ""}
	}
	return diagnosis{"crash", diagnosedWarn, what, "report it with what ringlet bundle writes, which has the stack"}
}

// versions compares this program with the one that answers.
func versions(mine string, about admin.About) diagnosis {
	d := diagnosis{Check: "version", Level: diagnosedOK, Text: "the plugin and this program are ringlet " + about.Version}
	if mine != about.Version {
		d.Level, d.Text = diagnosedWarn, fmt.Sprintf("the plugin is ringlet %s, but this program is %s", about.Version, mine)
		d.Next = "install the program of the plugin's release"
	}
	return d
}

// Engines of note, by major version.
const (
	oldestEngine = 20 // tested
	namesEngine  = 29 // the first one that sends the names of containers
)

// major returns the number before the first dot of a version, false if there is
// none.
func major(version string) (int, bool) {
	text, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// engineAge says whether the plugin reaches its engine, and how old that is. If an operator set
// --docker-socket to nothing, but networks show that there is an engine, status reports it.
func engineAge(e admin.AboutEngine, st ipam.Status) diagnosis {
	n, ok := major(e.Version)
	missed := slices.ContainsFunc(st.Problems, func(p ipam.Problem) bool { return p.Code == "no-docker-socket" })
	switch {
	case !e.Connected && e.Socket == "" && !missed:
		return diagnosis{"engine", diagnosedSkip, "there is no engine to ask, and none has networks here", ""}
	case !e.Connected:
		return diagnosis{
			"engine", diagnosedWarn, "the plugin does not reach its engine's API: " + e.LastError,
			"check that the engine runs, and that the plugin's mount docker (outside Docker: --docker-socket) leads to its socket; without it ringlet finds leaks only when the engine restarts",
		}
	case e.LastError != "":
		return diagnosis{
			"engine", diagnosedWarn, "the plugin could not read all of the engine's list: " + e.LastError,
			"check that docker network inspect answers for each network; until the plugin has read all of them, it frees no leaks",
		}
	case ok && n < oldestEngine:
		return diagnosis{"engine", diagnosedWarn, "engine " + e.Version + " is older than any that ringlet is tested with", "use 20.10 or later"}
	}
	return diagnosis{"engine", diagnosedOK, "engine " + e.Version + " answers the plugin", ""}
}

func names(about admin.About) diagnosis {
	e := about.Engine
	n, ok := major(e.Version)
	switch {
	case !ok:
		return diagnosis{"names", diagnosedSkip, "the engine's version is not known", ""}
	case n < namesEngine && about.Settings["mac"] == "false":
		return diagnosis{
			"names", diagnosedWarn, "engine " + e.Version + " does not send the names of containers, nor their MACs as RINGLET_MAC is false: no container keeps its address over a restart, and --ip is refused",
			"use engine 29 or later; if this host has no ipvlan network, set RINGLET_MAC=true",
		}
	case n < namesEngine:
		return diagnosis{
			"names", diagnosedWarn, "engine " + e.Version + " does not send the names of containers: a container keeps its address over a restart only with a fixed MAC or --ip",
			"use engine 29 or later, or give containers a fixed MAC (mac_address: in compose)",
		}
	}
	return diagnosis{"names", diagnosedOK, "the engine sends the names of containers, so they keep their addresses", ""}
}

func keyed(about admin.About, st ipam.Status) diagnosis {
	p, found := problemOf(st, "foreign-key", "unencrypted-peer", "no-key", "keys-unreadable", "keys-open")
	switch {
	case !about.Network.Open && about.Network.Keys == 0 && len(st.Peers) > 1:
		return diagnosis{"key", diagnosedFail, "this host knows other hosts but has no key, so it talks to none of them", "bring the key of the cluster here in a file, and set RINGLET_KEY_FILE to it"}
	case found:
		return diagnosis{"key", diagnosedWarn, p.Text, p.Next}
	case about.Network.Keys > 0:
		return diagnosis{"key", diagnosedOK, "all traffic between hosts is encrypted, with " + plural(about.Network.Keys, "key", "keys"), ""}
	case !about.Network.Open:
		return diagnosis{"key", diagnosedSkip, "this host is alone and has no key", ""}
	}
	return diagnosis{"key", diagnosedWarn, "traffic between hosts is not encrypted: any machine that reaches this host's port (RINGLET_BIND) can take part", "make a key with ringlet keygen --out FILE, bring the file to every host, and set RINGLET_KEY_FILE there"}
}

// clockState is what the kernel says of the clock of this host.
type clockState struct {
	known        bool
	synchronised bool
}

// readClock asks the kernel whether a program keeps the clock right.
func readClock() clockState {
	const unsynchronised = 5 // TIME_ERROR, adjtimex(2)
	state, err := syscall.Adjtimex(&syscall.Timex{})
	return clockState{known: err == nil, synchronised: state != unsynchronised}
}

func clock(c clockState) diagnosis {
	switch {
	case !c.known:
		return diagnosis{"clock", diagnosedSkip, "the kernel does not say whether the clock is synchronised", ""}
	case !c.synchronised:
		return diagnosis{
			"clock", diagnosedSkip, "the kernel knows of no program that keeps the clock right, as in most containers and virtual machines, whose host does: a clock that is wrong never gives an address to two containers",
			"compare the output of date on all hosts; where it differs, run an NTP client, such as chrony or systemd-timesyncd",
		}
	}
	return diagnosis{"clock", diagnosedOK, "the clock is synchronised", ""}
}

const (
	// dialTimeout is how long a port has to answer.
	dialTimeout = 2 * time.Second
	// maxDials is how many ports are tried at a time.
	maxDials = 64
)

// ports connects to each of the other hosts; before any is known, to those that
// RINGLET_JOIN lists. It does so at the same time: behind a firewall none answers.
func (a *app) ports(ctx context.Context, about admin.About, st ipam.Status) []diagnosis {
	if p, closed := problemOf(st, "network-closed"); closed { // so no other host can be reached
		return []diagnosis{{"ports", diagnosedFail, p.Text, p.Next}}
	}
	var found []func() diagnosis
	for _, p := range st.Peers {
		switch {
		case p.ID == st.Self.ID || p.State == stateEvicted:
		case p.Address == "":
			found = append(found, func() diagnosis {
				return diagnosis{"ports", diagnosedWarn, p.Name + " has sent nothing since this host started", "check that ringlet runs there, with the key of this cluster"}
			})
		default:
			found = append(found, func() diagnosis { return a.dial(ctx, p.Name, p.Address) })
		}
	}
	if len(found) > 0 {
		return together(found)
	}
	for target := range strings.SplitSeq(about.Settings["join"], ",") {
		if host, _, err := net.SplitHostPort(target); err == nil {
			found = append(found, func() diagnosis { return a.dial(ctx, host+", which RINGLET_JOIN lists,", target) })
		}
	}
	if len(found) == 0 {
		return []diagnosis{{"ports", diagnosedSkip, "there is no other host", ""}}
	}
	return together(found)
}

// together returns what each of the looks finds, [maxDials] of them at a time.
func together(looks []func() diagnosis) []diagnosis {
	found := make([]diagnosis, len(looks))
	places := make(chan struct{}, maxDials)
	var wg sync.WaitGroup
	for i, look := range looks {
		places <- struct{}{}
		wg.Go(func() {
			found[i] = look()
			<-places
		})
	}
	wg.Wait()
	return found
}

// dial connects to a host.
func (a *app) dial(ctx context.Context, name, address string) diagnosis {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := a.cfg.dial(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close() // nothing was sent
		return diagnosis{"ports", diagnosedOK, fmt.Sprintf("%s can be reached over TCP at %s", name, address), ""}
	}
	if _, unknown := errors.AsType[*net.DNSError](err); unknown {
		return diagnosis{"ports", diagnosedFail, name + " does not resolve to an address", "check the name, or write the address instead"}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return diagnosis{"ports", diagnosedFail, fmt.Sprintf("%s is up, but nothing listens at %s", name, address), "start ringlet on that host"}
	}
	return diagnosis{"ports", diagnosedFail, fmt.Sprintf("%s does not answer over TCP at %s", name, address), "check that the host is up, and open port " + portOf(address) + " for TCP and UDP in both firewalls"}
}

func udp(st ipam.Status) diagnosis {
	if p, found := problemOf(st, "udp-silent"); found {
		return diagnosis{"ports", diagnosedFail, p.Text, p.Next}
	}
	if len(st.Peers) < 2 {
		return diagnosis{"ports", diagnosedSkip, "UDP: there is no other host", ""}
	}
	return diagnosis{"ports", diagnosedOK, "UDP works, or was not silent long enough to tell", ""}
}

// leastMTU is what a packet between peers needs, in bytes: the 1,200 that package
// gossip fills, 40 for IPv6 and 8 for UDP. Tunnels have it (WireGuard: 1,420), and
// all that carries IPv6 (RFC 8200: 1,280).
const leastMTU = 1200 + 40 + 8

// mtu looks at the interface on which others reach this host.
func (a *app) mtu(about admin.About) diagnosis {
	at, err := netip.ParseAddrPort(about.Network.Advertise)
	if err != nil {
		return diagnosis{"mtu", diagnosedSkip, "this host talks to no other host", ""}
	}
	name, n := a.cfg.mtuOf(at.Addr())
	switch {
	case name == "":
		return diagnosis{"advertise", diagnosedWarn, fmt.Sprintf("no interface of this host has %v, the address at which other hosts reach it", at.Addr()), "set RINGLET_ADVERTISE to an address of this host, unless NAT forwards that one"}
	case n < leastMTU:
		return diagnosis{"mtu", diagnosedWarn, fmt.Sprintf("interface %s has an MTU of %d, but packets between hosts have up to %d bytes: they are fragmented or lost", name, n, leastMTU), "raise the MTU of that interface and of the path between the hosts"}
	}
	return diagnosis{"mtu", diagnosedOK, fmt.Sprintf("interface %s with %v has an MTU of %d", name, at.Addr(), n), ""}
}

// interfaceMTU returns the interface of this host that has the address, and its
// MTU; no name if none has.
func interfaceMTU(a netip.Addr) (string, int) {
	all, err := kernelnet.Interfaces()
	if err != nil {
		return "", 0
	}
	for i := range all {
		if slices.ContainsFunc(all[i].Addresses, func(p netip.Prefix) bool { return p.Addr() == a.Unmap() }) {
			return all[i].Name, all[i].MTU
		}
	}
	return "", 0
}

func sameNames(st ipam.Status) diagnosis {
	if p, wrong := problemOf(st, "same-name"); wrong {
		return diagnosis{"host-names", diagnosedWarn, p.Text, p.Next}
	}
	return diagnosis{"host-names", diagnosedOK, "each host has a name of its own", ""}
}

// problemOf returns the first problem that has one of the codes.
func problemOf(st ipam.Status, codes ...string) (p ipam.Problem, found bool) {
	i := slices.IndexFunc(st.Problems, func(p ipam.Problem) bool { return slices.Contains(codes, p.Code) })
	if i < 0 {
		return p, false
	}
	return st.Problems[i], true
}

func problems(st ipam.Status) diagnosis {
	switch n := len(st.Problems); {
	case st.Verdict == ipam.Failed && onlyConflicts(st.Problems):
		return diagnosis{"problems", diagnosedFail, "a container or device uses an address that is not its own", "see ringlet status"}
	case st.Verdict == ipam.Failed:
		return diagnosis{"problems", diagnosedFail, "this host hands out nothing", "see ringlet status"}
	case n > 0:
		return diagnosis{"problems", diagnosedWarn, "ringlet status reports " + plural(n, "problem", "problems"), "see ringlet status"}
	}
	return diagnosis{"problems", diagnosedOK, "ringlet status is fine", ""}
}

// onlyConflicts reports whether nothing is failed but that addresses are used twice, with
// which a host hands out others.
func onlyConflicts(all []ipam.Problem) bool {
	conflicts := 0
	for _, p := range all {
		switch {
		case p.Level != string(ipam.Failed):
		case p.Code != "conflict":
			return false
		default:
			conflicts++
		}
	}
	return conflicts > 0
}

func (v view) diagnoses(found []diagnosis) {
	styles := map[string]style{diagnosedOK: green, diagnosedWarn: yellow, diagnosedFail: red, diagnosedSkip: grey}
	for _, d := range found {
		v.wrap(styles[d.Level], fmt.Sprintf("%-6s", d.Level), d.Check+": "+safe(d.Text))
		if d.Next != "" {
			v.wrap(plain, "    next: ", safe(d.Next))
		}
	}
}

// portOf returns the port of host:port.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // a peer's address has one
	return port
}
