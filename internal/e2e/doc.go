// Package e2e tests ringlet against real Docker engines, and holds the equipment to start them. Every engine is
// private to its test: it lives on a [Host], a small machine made of namespaces, and disappears with it.
//
// # Use
//
//	func TestEngineGivesAddresses(t *testing.T) {
//		e := e2e.Start(t, e2e.Config{Name: "a"})
//		e.InstallPlugin("LOG_LEVEL=debug")
//		e.ImportDemo()
//		e.Docker("network", "create", "--ipam-driver", e2e.Plugin, "--subnet", "10.77.0.0/24", "net")
//		e.Docker("run", "-d", "--name", "one", "--network", "net", e2e.Demo)
//		fmt.Fprintln(t.Output(), e.Ringlet("ip", "ls"))
//	}
//
// [Start] skips the test with a reason unless RINGLET_E2E is set (make e2e sets it), the user is root and the
// engine's programs are installed. The plugin, the command line and the demo image come from the folder build of the
// module; make e2e brings them up to date before it runs the tests, go test alone does not.
//
// The engine is the machine's own, or, with make e2e ENGINE=DIR, what is in that folder: dockerd of another release, and
// whatever it needs in other versions, such as runc. scripts/engine.sh builds them.
//
// # A host
//
// A [Host] has its own pid, mount, network, host name and IPC namespaces, its own empty /run, its own /var/lib/docker
// and /var/lib/containerd. Everything inside is where it is on a real host: the engine's socket is /run/docker.sock,
// plugins listen below /run/docker/plugins, and the plugin mounts /var/run of its host with the default source. Commands
// are run inside with nsenter, so paths mean the same to them; the file system otherwise is the machine's own.
//
// The first process of a host waits on a pipe from the test. When the test ends, fails, runs into the deadline of go
// test or is killed, the pipe closes, that process ends, and the kernel ends every other process of the host with it;
// mounts, links and network go with their namespaces. Nothing of this needs the test to be alive.
//
// # Breaking things
//
// [Engine.Kill] ends dockerd as a crash does: containerd, containers and plugins go on. [Engine.Stop] asks it to end,
// [Engine.Up] starts it again, [Engine.Freeze] and [Engine.Thaw] stop and continue it, and [Engine.Replace] starts another
// release on its data. [Engine.PowerOff] ends everything on the host at once, and the next Up finds only what was written to
// files; after [Engine.Wipe] not even that. [Switch.Unplug] takes a host off the network at once, without a change that the
// host can see. In a [Cluster] these are Cut and Heal, and Replace puts another machine in the place of a host.
//
// TestClusterRandom has users of several hosts give commands at random, while hosts suffer one thing or another. CI lets
// it do that for a short time; go test ./internal/e2e -run TestClusterRandom -args -rounds 50, with RINGLET_E2E set, for as
// long as one likes. In the same way -frozen has TestClusterEtcdFrozen freeze an etcd for longer than CI does, and with
// -whole-lease TestClusterEtcd waits until the lease of a dead host has ended, a quarter of an hour.
//
// # Concurrency
//
// A Host, Engine and Switch may be used from several goroutines of their test, except for the methods above, which
// belong to one. Methods without an error among their results end the test on failure, so they, like testing.TB's own
// FailNow, belong to the test's goroutine; the Try forms may be called from any.
//
// Tests share nothing and mostly wait, so each calls t.Parallel first, and more of them run at a time than the machine has
// processors.
//
// Nothing waits for a fixed time: the harness waits for log lines, for the end of processes, or looks again until a
// limit of its own is reached ([Eventually]).
package e2e
