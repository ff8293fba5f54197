package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// at returns an address of the loopback network with a port that is free on it.
func at(t *testing.T, ip string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// run runs a monitor that asks each of the others a hundred times a second or so.
func run(t *testing.T, self string, own netip.AddrPort, others func() map[string]netip.AddrPort) (m *Monitor, stop func()) {
	t.Helper()
	var log plugintest.Log
	m = New(Config{Self: self, At: own, Hosts: others, Logger: log.Logger(), Round: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return m, stop
}

// Two hosts ask each other, each from its own address. One that stops is silent, and answers again when it is back.
func TestHostsAskEachOther(t *testing.T) {
	one, two := at(t, "127.0.0.2"), at(t, "127.0.0.3")
	hosts := func() map[string]netip.AddrPort { return map[string]netip.AddrPort{"aa": one, "bb": two} }
	a, _ := run(t, "aa", one, hosts)
	b, stop := run(t, "bb", two, hosts)
	for m, id := range map[*Monitor]string{a: "bb", b: "aa"} {
		plugintest.Eventually(t, id+" answers", func() bool { got, asked := m.Answers()[id]; return asked && got.Err == nil })
		if n := len(m.Answers()); n != 1 {
			t.Errorf("a host of two asked %d", n)
		}
	}
	stop()
	plugintest.Eventually(t, "bb is silent", func() bool { got := a.Answers()["bb"]; return got.Failed > 2 })
	got := a.Answers()["bb"]
	if got.Err == nil || got.Err.Error() != "connection refused" || time.Since(got.Since) > 10*time.Second {
		t.Errorf("the answer is %+v", got)
	}
	run(t, "bb", two, hosts)
	plugintest.Eventually(t, "bb answers again", func() bool { got := a.Answers()["bb"]; return got.Err == nil && got.Failed == 0 })
}

// Whoever else answers at the address is no answer, and what is said of it names the reason.
func TestOthersAtTheAddress(t *testing.T) {
	for what, c := range map[string]struct {
		says string
		want string
	}{
		"the host":         {"ringlet bb\n", ""},
		"another host":     {"ringlet cc\n", "the ringlet of another host answers there"},
		"another program":  {"SSH-2.0-OpenSSH_9.2\r\n", "what answers there is not ringlet"},
		"one that is mute": {"", "what answers there is not ringlet"},
		"one without end":  {strings.Repeat("x", 1<<20), "what answers there is not ringlet"},
	} {
		t.Run(what, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.3:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var from atomic.Value
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					from.Store(conn.RemoteAddr().String())
					_, _ = io.WriteString(conn, c.says)
					_ = conn.Close()
				}
			}()
			err = ask(t.Context(), netip.MustParseAddr("127.0.0.2"), "bb", l.Addr().(*net.TCPAddr).AddrPort())
			if got := fmt.Sprint(err); (err == nil) != (c.want == "") || err != nil && got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if at, _ := from.Load().(string); !strings.HasPrefix(at, "127.0.0.2:") {
				t.Errorf("the question came from %s, not from the health address", at)
			}
		})
	}
}

// A host that takes the connection and says nothing costs three seconds and no more.
func TestHostThatSaysNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begun := time.Now()
	err = ask(t.Context(), netip.MustParseAddr("127.0.0.2"), "bb", l.Addr().(*net.TCPAddr).AddrPort())
	if took := time.Since(begun); err == nil || err.Error() != "no answer within 3s" || took > 2*answerTime {
		t.Errorf("after %v: %v", took, err)
	}
}

// A host without its own address asks nobody, since the others are not at fault, and says so. It tries again.
func TestHostWithoutItsAddress(t *testing.T) {
	own := at(t, "127.0.0.2")
	taken, err := net.Listen("tcp", own.String())
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	other := at(t, "127.0.0.3")
	m, _ := run(t, "aa", own, func() map[string]netip.AddrPort { asked.Add(1); return map[string]netip.AddrPort{"bb": other} })
	plugintest.Eventually(t, "it is a problem", func() bool { _, wrong := m.Fault().Problem(); return wrong })
	p, _ := m.Fault().Problem()
	if want := "this host cannot use its health address " + own.String() + " (RINGLET_HEALTH), so it neither answers there nor asks other hosts: address already in use"; p.Text != want {
		t.Errorf("the problem is\n%s, want\n%s", p.Text, want)
	}
	before := asked.Load()
	time.Sleep(200 * time.Millisecond)
	if n := asked.Load(); n != before || len(m.Answers()) > 0 {
		t.Errorf("it asked all the same")
	}
	_ = taken.Close()
	plugintest.Eventually(t, "the problem ends", func() bool { _, wrong := m.Fault().Problem(); return !wrong })
	plugintest.Eventually(t, "it asks", func() bool { return m.Answers()["bb"].Failed > 0 })
}

// Many hosts are asked one after the other, and a slow one does not keep the others waiting.
func TestManyHosts(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	own := at(t, "127.0.0.2")
	others := map[string]netip.AddrPort{"mute": mute.Addr().(*net.TCPAddr).AddrPort(), "v6": netip.MustParseAddrPort("[fd00::1]:7952")}
	for i := range 150 {
		others[fmt.Sprintf("aa%03d", i)] = own
	}
	m, _ := run(t, "self", own, func() map[string]netip.AddrPort { return others })
	plugintest.Eventually(t, "all were asked", func() bool { return len(m.Answers()) >= 150 })
	if _, asked := m.Answers()["v6"]; asked {
		t.Error("a host was asked at an address of the other family")
	}
}

// A round is as long as it has to be: two questions a second at most.
func TestPaceOfQuestions(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 30 * time.Second, 2: 15 * time.Second, 59: 30 * time.Second / 59, 60: spacing, 150: spacing, 1000: spacing} {
		if got := pauseFor(n, roundTime); got != want {
			t.Errorf("%d hosts: %v between questions, want %v", n, got, want)
		}
	}
	for range 1000 {
		if d := vary(spacing); d < spacing*4/5 || d >= spacing*6/5 {
			t.Fatalf("%v was made %v", spacing, d)
		}
	}
}

// The status has what each answered, and a host that has been silent for a minute and a half is a problem, if gossip reaches it.
func TestStatus(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	peers := []ipam.PeerStatus{
		{ID: "aa", Name: "host-a"},
		{ID: "bb", Name: "host-b", Reachable: true},
		{ID: "cc", Name: "host-c", Reachable: true},
		{ID: "dd", Name: "host-d"},
		{ID: "ee", Name: "host-e", Reachable: true},
	}
	address := netip.MustParseAddrPort("10.1.0.5:7952")
	silent := func(d time.Duration, failed int) Answer {
		return Answer{At: address, Err: errors.New("no route to host"), Since: now.Add(-d), Failed: failed}
	}
	const one = "host-b answers gossip, but its health address 10.1.0.5:7952 has not answered for 1m30s: no route to host"
	for what, c := range map[string]struct {
		answers map[string]Answer
		text    string
		next    string
	}{
		"all answer":         {map[string]Answer{"bb": {At: address, Since: now}, "cc": {At: address, Since: now}}, "", ""},
		"not for long":       {map[string]Answer{"bb": silent(89*time.Second, 9), "cc": {At: address}}, "", ""},
		"asked once":         {map[string]Answer{"bb": silent(100*time.Second, 1), "cc": {At: address}}, "", ""},
		"gossip is gone too": {map[string]Answer{"dd": silent(time.Hour, 9), "cc": {At: address}}, "", ""},
		"one":                {map[string]Answer{"bb": silent(90*time.Second, 2), "cc": {At: address}}, one, "check the network of the containers between"},
		"all": {
			map[string]Answer{"bb": silent(90*time.Second, 2), "cc": silent(time.Hour, 9)},
			one + "; host-c answers gossip, but its health address 10.1.0.5:7952 has not answered for 1h0m0s: no route to host", "no other host answers, so check this host first",
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := &Monitor{others: c.answers}
			st := m.Complete(ipam.Status{Peers: peers}, now)
			p, wrong := plugintest.Find(st.Problems, "health-silent")
			if wrong != (c.text != "") || p.Text != c.text || !strings.HasPrefix(p.Next, c.next) {
				t.Errorf("the problem is %+v", p)
			}
			for _, p := range st.Peers {
				a, asked := c.answers[p.ID]
				if has := p.Health.Address != ""; has != (asked && p.Reachable) || has && p.Health.Answers != (a.Err == nil) {
					t.Errorf("%s has %+v", p.Name, p.Health)
				}
			}
			if peers[1].Health.Address != "" {
				t.Error("the snapshot of others was changed")
			}
		})
	}
	none := (*Monitor)(nil).Complete(ipam.Status{Peers: peers}, now)
	if len(none.Problems) > 0 {
		t.Error("a host without a health address has a problem")
	}
}

// A problem names three hosts, and counts the others.
func TestManySilentHosts(t *testing.T) {
	now := time.Now()
	m := &Monitor{others: map[string]Answer{}}
	var st ipam.Status
	for i := range 150 {
		id := fmt.Sprintf("%02x", i)
		st.Peers = append(st.Peers, ipam.PeerStatus{ID: id, Name: "host-" + id, Reachable: true})
		m.others[id] = Answer{Err: errors.New("no route to host"), Since: now.Add(-time.Hour), Failed: 9}
	}
	p, wrong := plugintest.Find(m.Complete(st, now).Problems, "health-silent")
	if !wrong || !strings.HasSuffix(p.Text, "; and 147 more") || len(p.Text) > 600 {
		t.Errorf("the problem is %q", p.Text)
	}
}
