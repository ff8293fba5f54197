package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// nextStep is a problem of the process or of the network between hosts, its advice, and the test that follows that and sees the
// problem end. Those of the core are in package ipam.
type nextStep struct {
	code   string // of the problem
	advice string // a part of what is printed
	ran    string // what the test did, as a command or a step of an operator
	test   string // that did it; empty: scene is one of TestNextStepsOfTheProcess
	// scene has the problem. It returns the status that has the advice, and what follows that.
	scene func(t *testing.T) (status func() ipam.Status, follow func())
}

func nextSteps() []nextStep {
	return []nextStep{
		{"journal-unavailable", "see to the disk with the plugin's data", "rm DATA/journal, which was a file", "", journalBlocked},
		{"decisions-not-saved", "see to the disk with the plugin's data; ringlet tries again every few seconds", "rm -r DATA/ringlet.decided.json, which was a directory", "", decisionsBlocked},
		{"disk-reserve", "check the disk with the plugin's data", "rm -r DATA/ringlet.db.ballast, which was a directory", "", ballastBlocked},
		{"no-key", "set RINGLET_KEY or RINGLET_KEY_FILE to the key of the cluster", "RINGLET_KEY=KEY ringlet serve", "", keyForgotten},
		{"same-name", "give each host its own RINGLET_NAME", "RINGLET_NAME=host-b ringlet serve", "", nameTwice},
		{"etcd-unavailable", "or unset RINGLET_ETCD", "ringlet serve without RINGLET_ETCD", "", etcdAway},
		{"decisions-lost", "then run ringlet trust on this host", "ringlet trust", "TestDecidedIsLost", nil},
		{"database-replaced", "then remove ", "rm DATA/ringlet.db.damaged-*", "TestDatabaseReplacedUntilRemoved", nil},
		{"database-unavailable", "", "the other process stopped", "TestStandbyWhileTheDatabaseIsLocked", nil},
		{"database-unavailable", "", "the disk mounted again", "TestEnginePluginWithoutItsDisk", nil},
		{"disk-full", "make room for %d MiB on the disk with the plugin's data", "rm of files on the disk", "TestDiskThatFills", nil},
		{"disk-low", "make room for %d MiB on the disk with the plugin's data", "rm of files on the disk", "TestDiskThatFills", nil},
		{"http-unavailable", "stop the program that has the address", "the other program stopped", "TestHTTPOnABusyPort", nil},
		{"admin-unavailable", "check that no other process has that path", "the other process stopped", "TestAdminSocketOfAnotherProcess", nil},
		{"http-certificate", "let RINGLET_HTTP_CERT and RINGLET_HTTP_KEY name a certificate and its private key", "both files written again", "TestTLS", nil},
		{"interfaces-unreadable", "they are read again every few seconds", "sleep 2", "TestInterfacesThatCannotBeRead", nil},
		{"routes-unreadable", "they are read again every few seconds", "sleep 2", "TestRoutesThatCannotBeRead", nil},
		{"keys-open", "run chmod 600 on the file", "chmod 600 FILE", "TestKeysThatOthersMayRead", nil},
		{"mac-on-ipvlan", "docker plugin set %[1]s RINGLET_MAC=false", "docker plugin disable --force; docker plugin set RINGLET_MAC=false; docker plugin enable", "TestEngineIPVLAN", nil},
		{"router-unnamed", "create the network again with the router of the LAN as --gateway", "docker network rm; docker network create --gateway", "TestEngineRouterUnnamed", nil},
		{"router-unnamed", "or with --ipam-opt gateway=none", "docker network rm; docker network create --ipam-opt gateway=none", "TestEngineRouterUnnamed", nil},
		{"no-docker-socket", "set the plugin's mount docker to a directory with docker.sock in it", "docker plugin disable --force; docker plugin set docker.source=/run; docker plugin enable", "TestEngineWithoutSocket", nil},
		{"engine-unreachable", "check that the engine runs", "dockerd continued, which was stopped by a signal", "TestEngineOutOfSight", nil},
		{"probe-failed", "the plugin its capability CAP_NET_RAW", "CAP_NET_RAW given back", "TestLANThatCannotBeAsked", nil},
		{"probe-needs-restart", "docker plugin disable --force, then docker plugin enable", "docker plugin disable --force; docker plugin enable", "TestEnginePluginRights", nil},
		{"proxy-arp", "end proxy ARP on that device", "sysctl proxy_arp=0 on the device", "TestProbesBehindProxyARP", nil},
		{"not-claimed", "ringlet tries again every %v", "the addresses freed on the other host; sleep 30", "TestClaims", nil},
		{"identity-too-long", "or start the container with shorter ones", "docker run with shorter labels", "TestUnidentified", nil},
		{"identities-full", "numbers that no container uses are free again after half an hour", "sleep 1800", "TestUnidentified", nil},
		{"health-unavailable", "a port that no other program has", "the other program stopped", "TestHostWithoutItsAddress", nil},
		{"health-unavailable", "an address that this host has", "ip addr add", "TestClusterHealth", nil},
		{"health-silent", "that a firewall lets the port through", "iptables -D", "TestClusterHealth", nil},
		{"health-silent", "so check this host first", "iptables -D", "TestClusterHealth", nil},
		{"elsewhere", "see ringlet status on %s", "ringlet status on the other host, and what it says", "TestElsewhere", nil},
		{"announce-failed", "give the plugin its capability CAP_NET_RAW", "ringlet serve, with CAP_NET_RAW", "TestEngineAnnounceFailed", nil},
		{"announce-failed", "or give containers a fixed MAC and set RINGLET_ANNOUNCE=false", "RINGLET_ANNOUNCE=false ringlet serve", "TestEngineAnnounceFailed", nil},
		{"rights-kept", "take a build of make build", "ringlet serve, of make build", "TestHostRightsKept", nil},
		{"inventory-incomplete", "check that docker network inspect answers for each network; if it does not, restart the engine", "docker network inspect; dockerd started again", "TestEngineListIncomplete", nil},
		{"directory-late", "start or reconnect the hosts that ringlet peers shows as unreachable", "ringlet peers; the hosts connected again", "TestDirectoryIsLate", nil},
		{"decisions-restored", "none is needed", "ringlet exclude ls; sleep 86400", "TestDecidedIsNotedForADay", nil},
		{"started-over", "to end this note, remove ", "rm DATA/ringlet.db.former-*", "TestRejoinInTheProcess", nil},

		{"network-closed", "", "the other program stopped", "TestPortBusy", nil},
		{"keys-unreadable", "", "the key written into the file again", "TestKeysComeAndGo", nil},
		{"udp-silent", "open UDP port", "UDP let through", "TestNoUDP", nil},
		{"seed-unresolved", "check the name, and that the resolver of this host knows it", "the name given to the resolver", "TestNames", nil},
		{"seed-unreachable", "start ringlet there, or correct the port", "ringlet serve there", "TestAllSeedsGone", nil},
		{"seed-unreachable", "set the same RINGLET_CLUSTER and keys on both hosts", "RINGLET_CLUSTER, RINGLET_KEY as there", "TestForeignMended", nil},
		{"identity-conflict", "one of the two hosts runs with a copied database: remove it there", "the copy stopped", "TestCopied", nil},
		{"foreign-label", "set the same RINGLET_CLUSTER on both hosts", "RINGLET_CLUSTER=NAME ringlet serve there", "TestForeignMended", nil},
		{"foreign-key", "give both hosts the same keys", "RINGLET_KEY=KEY ringlet serve there", "TestForeignMended", nil},
		{"unencrypted-peer", "give both hosts the same keys", "RINGLET_KEY=KEY ringlet serve there", "TestForeignMended", nil},
		{"no-key", "give both hosts the same keys", "RINGLET_KEY=KEY ringlet serve here", "TestForeignMended", nil},
		{"foreign-peer", "check which program has the port there", "RINGLET_CLUSTER, RINGLET_KEY as there", "TestForeignMended", nil},
	}
}

// Whoever does what the status says of the process, or of the network between hosts, sees the problem end. Each problem is in the
// table.
func TestNextStepsOfTheProcess(t *testing.T) {
	parts := packagesWithProblems(t)
	codes, texts := problemsOfSource(t, append(parts, "../gossip")...)
	tests := testsOf(t, append(parts, "../gossip", "../internal/e2e")...)
	inTable := map[string]bool{}
	for _, step := range nextSteps() {
		inTable[step.code] = true
		if !slices.Contains(codes, step.code) {
			t.Errorf("there is no problem %s", step.code)
		}
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, step.advice) }) {
			t.Errorf("nobody is advised %q", step.advice)
		}
		if step.scene == nil {
			if !slices.Contains(tests, step.test) {
				t.Errorf("of %s: there is no test %s", step.code, step.test)
			}
			continue
		}
		t.Run(step.code, func(t *testing.T) {
			t.Parallel()
			status, follow := step.scene(t)
			plugintest.Eventually(t, "the problem is there", func() bool {
				p, found := plugintest.Find(status().Problems, step.code)
				return found && strings.Contains(p.Next, step.advice)
			})
			follow()
			plugintest.Eventually(t, "the problem is over", func() bool {
				st := status()
				_, found := plugintest.Find(st.Problems, step.code)
				return st.Verdict != "" && !found
			})
		})
	}
	for _, code := range codes {
		if !inTable[code] {
			t.Errorf("nobody follows the advice of problem %s", code)
		}
	}
}

// packagesWithProblems returns this package and those under it that make problems of the status.
func packagesWithProblems(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{"."}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		makes := strings.Contains(string(text), "fault.Fault{") || strings.Contains(string(text), "ipam.Problem{")
		if dir := filepath.Dir(file); makes && !strings.HasSuffix(file, "_test.go") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return append(dirs, "directory")
}

// problemsOfSource returns the codes of problems in the sources of packages, and all texts there.
func problemsOfSource(t *testing.T, dirs ...string) (codes, texts []string) {
	t.Helper()
	code := regexp.MustCompile(`^[a-z]+(-[a-z]+)+$|^elsewhere$`)
	text := func(e ast.Expr) string {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return ""
		}
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	add := func(name string, value ast.Expr) {
		if s := text(value); (strings.HasPrefix(strings.ToLower(name), "code") || strings.HasPrefix(name, "cause")) && code.MatchString(s) && !slices.Contains(codes, s) {
			codes = append(codes, s)
		}
	}
	for _, file := range sources(t, dirs, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					add(key.Name, n.Value)
				}
			case *ast.ValueSpec:
				for i, v := range n.Values {
					add(n.Names[i].Name, v)
				}
			case *ast.BasicLit:
				texts = append(texts, text(n))
			}
			return true
		})
	}
	return codes, texts
}

// testsOf returns the names of the tests of packages.
func testsOf(t *testing.T, dirs ...string) (names []string) {
	t.Helper()
	for _, file := range sources(t, dirs, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// sources parses the files of packages whose names are wanted.
func sources(t *testing.T, dirs []string, wanted func(name string) bool) (files []*ast.File) {
	t.Helper()
	for _, dir := range dirs {
		all, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(all) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, name := range all {
			if !wanted(name) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func journalBlocked(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	data := t.TempDir()
	path := filepath.Join(data, journalName)
	must(t, os.WriteFile(path, nil, 0o600))
	p := startWhole(t, data)
	return p.status, func() { must(t, os.Remove(path)) }
}

func decisionsBlocked(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	data := t.TempDir()
	path := filepath.Join(data, "ringlet.decided.json")
	p := startWhole(t, data, "RINGLET_TIMEOUT=20s")
	plugintest.Eventually(t, "it serves", p.serves)
	must(t, os.RemoveAll(path))
	must(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	p.call("RequestPool", map[string]any{"AddressSpace": "local", "Pool": "10.50.0.0/24", "Options": map[string]string{"pool": "lab"}})
	return p.status, func() { must(t, os.RemoveAll(path)) }
}

func ballastBlocked(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	data := t.TempDir()
	path := filepath.Join(data, databaseName+".ballast")
	must(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	p := startWhole(t, data)
	return p.status, func() { must(t, os.RemoveAll(path)) }
}

// pair starts two hosts of one cluster, with these names. again starts the second one anew, with other settings.
func pair(t *testing.T, names [2]string) (first *wholeProcess, again func(settings ...string) *wholeProcess) {
	t.Helper()
	at := freePorts(t, 2)
	bind := func(i int) string { return "RINGLET_BIND=" + at[i] }
	first = startWhole(t, t.TempDir(), bind(0), "RINGLET_NAME="+names[0], "RINGLET_KEY="+testKey, "RINGLET_BOOTSTRAP=1")
	plugintest.Eventually(t, "the first one serves", first.serves)
	data := t.TempDir()
	var last *wholeProcess
	again = func(settings ...string) *wholeProcess {
		if last != nil {
			if err := last.end(); err != nil {
				t.Fatal(err)
			}
		}
		last = startWhole(t, data, append([]string{bind(1)}, settings...)...)
		return last
	}
	second := again("RINGLET_NAME="+names[1], "RINGLET_KEY="+testKey, "RINGLET_JOIN="+at[0])
	plugintest.Eventually(t, "both are one cluster", func() bool { return len(first.status().Peers) == 2 && len(second.status().Peers) == 2 })
	return first, again
}

// testKey is the key of a cluster of this package's tests.
const testKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func keyForgotten(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	_, again := pair(t, [2]string{"host-a", "host-b"})
	p := again("RINGLET_NAME=host-b")
	return func() ipam.Status { return p.status() }, func() { p = again("RINGLET_NAME=host-b", "RINGLET_KEY="+testKey) }
}

func nameTwice(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	first, again := pair(t, [2]string{"host-a", "host-a"})
	return first.status, func() { again("RINGLET_NAME=host-b", "RINGLET_KEY="+testKey) }
}

func etcdAway(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	data := t.TempDir()
	p := startWhole(t, data, "RINGLET_ETCD=http://"+freePorts(t, 1)[0])
	return func() ipam.Status { return p.status() }, func() {
		must(t, p.end())
		p = startWhole(t, data)
	}
}
