package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// Every finding, with what to do.
func TestDoctor(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close() // nothing listens there now
	well := func() *fixture {
		f := alone()
		f.st.Peers = append(f.st.Peers, ipam.PeerStatus{ID: "77aa", Name: "host-b", State: "active", Reachable: true, Address: open.Addr().String()})
		return f
	}
	var all strings.Builder
	for _, tt := range []struct {
		name  string
		f     func(f *fixture, cfg *Config)
		level string
		code  int
	}{
		{"all is well", func(*fixture, *Config) {}, "", exitFine},
		{"alone, without a key", func(f *fixture, _ *Config) {
			f.st.Peers, f.about.Network = f.st.Peers[:1], admin.AboutNetwork{}
		}, "skip   key", exitFine},
		{"another program", func(f *fixture, _ *Config) { f.about.Version = "v1.1.0\x1b" }, "warn  version", exitDegraded},
		{"an engine that sends no names", func(f *fixture, _ *Config) { f.about.Engine.Version = "28.5.2" }, "warn  names", exitDegraded},
		{"an engine that sends neither names nor MACs", func(f *fixture, _ *Config) {
			f.about.Engine.Version, f.about.Settings = "28.5.2", map[string]string{"mac": "false"}
		}, "RINGLET_MAC is false", exitDegraded},
		{"an engine of old", func(f *fixture, _ *Config) { f.about.Engine.Version = "19.03.1" }, "warn  engine", exitDegraded},
		{"no engine", func(f *fixture, _ *Config) {
			f.about.Engine = admin.AboutEngine{Socket: "/run/docker.sock", LastError: "there is no docker socket"}
		}, "warn  engine", exitDegraded},
		{"no engine, as somebody has said", func(f *fixture, _ *Config) {
			f.about.Engine = admin.AboutEngine{LastError: "no docker socket: relying on the engine's replay"}
		}, "skip  engine", exitFine},
		{"an engine that nobody has told of", func(f *fixture, _ *Config) {
			f.about.Engine = admin.AboutEngine{LastError: "no docker socket: relying on the engine's replay"}
			f.st.Verdict, f.st.Problems = ipam.Degraded, []ipam.Problem{{
				Code: "no-docker-socket", Level: string(ipam.Degraded),
				Text: "this host cannot ask its engine which containers exist, and relies on what the engine replays when it starts",
				Next: "name the engine's socket with --docker-socket, so that addresses of containers that vanish are freed",
			}}
		}, "warn  engine", exitDegraded},
		{"an engine that does not tell all", func(f *fixture, _ *Config) {
			f.about.Engine.LastError = "/networks/n2: datastore is broken"
		}, "warn  engine", exitDegraded},
		{"no key among others", func(f *fixture, _ *Config) {
			f.about.Network = admin.AboutNetwork{}
			f.st.Verdict, f.st.Problems = ipam.Degraded, []ipam.Problem{{
				Code: "no-key", Level: "degraded", Text: "this host knows other hosts but has no key, so it talks to none of them", Next: "set RINGLET_KEY",
			}}
		}, "fail  key: this host knows other hosts", exitFailed},
		{"a crash", func(f *fixture, _ *Config) {
			f.crash = "2026-11-21T09:00:00Z\nv1.0.0\npanic: an error of the program\n\ngoroutine 7 [running]:\nmain.main()\n"
		}, "warn  crash: ringlet v1.0.0 crashed at", exitDegraded},
		{"a crash of long ago", func(f *fixture, _ *Config) {
			f.crash = "2025-11-21T09:00:00Z\nv1.0.0\npanic: an error of the program\n"
		}, "ok    crash", exitFine},
		{"no database", func(f *fixture, _ *Config) {
			f.about.Engine, f.about.Network = admin.AboutEngine{}, admin.AboutNetwork{}
			f.st = ipam.Status{Verdict: ipam.Failed, State: ipam.Suspended, Self: ipam.PeerStatus{Name: "host-a"}, Problems: []ipam.Problem{{
				Code: "database-unavailable", Level: string(ipam.Failed),
				Text: "this host hands out no addresses, because it cannot use its database: write /data/ringlet.db: no space left on device: make room for some MB on the disk of /data",
				Next: "check the disk with the plugin's data; ringlet tries again by itself, at least every 10s",
			}}}
		}, "fail  database: this host hands out no addresses", exitFailed},
		{"in the clear", func(f *fixture, _ *Config) { f.about.Network.Keys = 0 }, "warn  key", exitDegraded},
		{"another key", func(f *fixture, _ *Config) {
			f.st.Verdict, f.st.Problems = ipam.Degraded, []ipam.Problem{{
				Code: "foreign-key", Level: "degraded", Text: "192.168.1.11 encrypts with a key that this peer does not have", Next: "give every host of the cluster the same key",
			}}
		}, "warn  key: 192.168.1.11 encrypts", exitDegraded},
		{"a key file that others may read", func(f *fixture, _ *Config) {
			f.st.Verdict, f.st.Problems = ipam.Degraded, []ipam.Problem{{
				Code: "keys-open", Level: "degraded", Text: "others than its owner may use the file of the cluster's keys", Next: "chmod 600 the file",
			}}
		}, "warn  key: others than its owner", exitDegraded},
		{"another host that encrypts nothing", func(f *fixture, _ *Config) {
			f.st.Verdict, f.st.Problems = ipam.Degraded, []ipam.Problem{{
				Code: "unencrypted-peer", Level: "degraded", Text: "192.168.1.11:7950 in RINGLET_JOIN cannot be reached: it does not encrypt, which is refused here", Next: "give both peers the same keys",
			}}
		}, "warn  key: 192.168.1.11:7950 in RINGLET_JOIN", exitDegraded},
		{"in the clear among others that encrypt", func(f *fixture, _ *Config) {
			f.about.Network.Keys = 0
			f.st.Verdict, f.st.Problems = ipam.Degraded, []ipam.Problem{{
				Code: "no-key", Level: "degraded", Text: "192.168.1.11 encrypts, and this peer has no key", Next: "give both peers the same keys",
			}}
		}, "warn  key: 192.168.1.11 encrypts", exitDegraded},
		{"a clock that nobody sets", func(_ *fixture, c *Config) { c.clock = func() clockState { return clockState{known: true} } }, "skip  clock", exitFine},
		{"no clock", func(_ *fixture, c *Config) { c.clock = func() clockState { return clockState{} } }, "skip  clock", exitFine},
		{"a small MTU", func(_ *fixture, c *Config) {
			c.mtuOf = func(netip.Addr) (string, int) { return "wg0", 1200 }
		}, "warn  mtu", exitDegraded},
		{"a tunnel", func(_ *fixture, c *Config) {
			c.mtuOf = func(netip.Addr) (string, int) { return "tailscale0", 1280 }
		}, "ok    mtu", exitFine},
		{"NAT", func(_ *fixture, c *Config) { c.mtuOf = func(netip.Addr) (string, int) { return "", 0 } }, "warn  mtu", exitDegraded},
		{"nobody listens", func(f *fixture, _ *Config) { f.st.Peers[1].Address = closed.Addr().String() }, "fail  ports", exitFailed},
		{"never heard of", func(f *fixture, _ *Config) { f.st.Peers[1].Address = "" }, "warn  ports", exitDegraded},
		{"an evicted host", func(f *fixture, _ *Config) { f.st.Peers[1].State, f.st.Peers[1].Address = stateEvicted, "" }, "skip  ports", exitFine},
		{"no cluster yet", func(f *fixture, _ *Config) {
			f.st.Peers = f.st.Peers[:1]
			f.about.Settings["join"] = open.Addr().String() + "," + closed.Addr().String() + ",nowhere.invalid:7950"
		}, "fail  ports", exitFailed},
		{"UDP", func(f *fixture, _ *Config) {
			f.st.Problems = []ipam.Problem{{Code: "udp-silent", Level: "degraded", Text: "UDP does not get through, although other hosts answer over TCP: changes spread slowly", Next: "open UDP port 7950 between all hosts"}}
		}, "fail  ports", exitFailed},
		{"one name twice", func(f *fixture, _ *Config) {
			f.st.Problems = []ipam.Problem{{Code: "same-name", Level: "degraded", Text: "several hosts have the same name: host-a", Next: "give each host its own RINGLET_NAME"}}
		}, "warn  host-names", exitDegraded},
		{"handing out nothing", func(f *fixture, _ *Config) { f.st.Verdict = ipam.Failed }, "fail  problems: this host hands out nothing", exitFailed},
		{"a conflict", func(f *fixture, _ *Config) {
			f.st.Verdict, f.st.Problems = ipam.Failed, troubled().st.Problems[:1]
		}, "fail  problems: a container or device uses an address that is not its own", exitFailed},
		{"a conflict, and handing out nothing", func(f *fixture, _ *Config) {
			f.st.Verdict, f.st.Problems = ipam.Failed, troubled().st.Problems
		}, "fail  problems: this host hands out nothing", exitFailed},
	} {
		f := well()
		cfg := Config{
			columns: 80, clock: func() clockState { return clockState{known: true, synchronised: true} },
			mtuOf: func(netip.Addr) (string, int) { return "eth0", 1500 },
		}
		tt.f(f, &cfg)
		cfg.Getenv = env("RINGLET_SOCKET", serve(t, f))
		got := ringlet(t, cfg, "doctor")
		if got.code != tt.code || got.err != "" {
			t.Errorf("%s: code %d, said %s", tt.name, got.code, got.err)
		}
		fmt.Fprintf(&all, "# %s\n\n", tt.name)
		for line := range strings.Lines(got.out) {
			if tt.level == "" || !strings.HasPrefix(line, "ok ") {
				line = strings.ReplaceAll(line, open.Addr().String(), "192.168.1.11:7950")
				all.WriteString(strings.ReplaceAll(line, closed.Addr().String(), "192.168.1.12:7950"))
			}
		}
		all.WriteString("\n")
	}
	golden.Check(t, "doctor.txt", []byte(all.String()))
}

// Hosts that do not answer, as all do behind a firewall, are waited for together; each is
// told of, in order.
func TestDoctorTriesAllHostsAtOnce(t *testing.T) {
	f := alone()
	const others = 30
	var want []string
	for i := range others {
		p := ipam.PeerStatus{ID: fmt.Sprint("aa", i), Name: fmt.Sprintf("host-%02d", i), State: "active", Address: fmt.Sprintf("192.0.2.%d:7950", i)}
		f.st.Peers = append(f.st.Peers, p)
		want = append(want, "fail  ports: "+p.Name+" does not answer over TCP at "+p.Address)
	}
	var begun atomic.Int32
	all := make(chan struct{})
	cfg := Config{columns: 200, Getenv: env("RINGLET_SOCKET", serve(t, f)), dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if begun.Add(1) == others {
			close(all)
		}
		select {
		case <-all:
			return nil, syscall.ETIMEDOUT
		case <-ctx.Done():
			t.Error("one was waited for before the next was tried")
			return nil, ctx.Err()
		}
	}}
	got := ringlet(t, cfg, "doctor")
	var told []string
	for line := range strings.Lines(got.out) {
		if strings.Contains(line, "ports: host-") {
			told = append(told, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, told); got.code != exitFailed || diff != "" {
		t.Errorf("code %d (-want +got):\n%s", got.code, diff)
	}
}

// What the doctor asks of this host is there to be asked.
func TestDoctorAsksTheHost(t *testing.T) {
	if name, mtu := interfaceMTU(netip.MustParseAddr("127.0.0.1")); name == "" || mtu < 1280 {
		t.Errorf("127.0.0.1 is on %q with an MTU of %d", name, mtu)
	}
	if name, _ := interfaceMTU(netip.MustParseAddr("192.0.2.1")); name != "" {
		t.Errorf("an address for documentation is on %s", name)
	}
	if c := readClock(); !c.known {
		t.Skip("this kernel does not tell how its clock stands")
	}
}
