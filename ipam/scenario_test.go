package ipam_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// What happens on one host, as files under testdata/scenarios: a file for each family, a line for each step. A line that ends
// with a colon and an expectation checks what comes of it.
//
//	scenario NAME               begins one
//	needs RULE, RULE            it fails without each of these rules of the protocol
//	define NAME                 begins steps that "given NAME" stands for
//	for X: A | B                it is played once for each value, which replaces $X
//	N times: STEP; STEP         repeats steps
//	# TEXT                      a comment
//
//	no socket                   nothing waits for the engine's first list; has to come first
//	no mac                      engines give endpoints no MAC; has to come first
//	network POOL                a network is made; steps about networks and containers are about the last one made
//	network POOL gateway        with a gateway on this host
//	network POOL RANGE          with a range for containers
//	on POOL [RANGE]             the steps that follow are about that network
//	remove network
//	run NAME/MAC [ADDRESS]      a container asks for an address; the last byte of its MAC is enough, - is no name
//	aux ADDRESS                 a network asks for an auxiliary address
//	client NAME POOL ADDRESS    a client of the API asks for an address
//	release ADDRESS
//	reserve ADDRESS for NAME
//	list [POOL [, NAME/MAC ADDRESS]... [, aux ADDRESS]...] [+ POOL...]   the engine lists networks, with containers; or none
//	answer [POOL...]            the engine lists that, and a request that waited is answered
//	begin list                  the engine is asked for a list
//	end list [POOL...]          which comes now; "again 1s" expects that the next one is asked for that soon
//	greet, blind                the engine starts; it answers no question
//	gateway ADDRESS             a network asks for its gateway
//	host [ADDRESS/BITS]...      what the host has on its interfaces
//	wait DURATION               by the clock, without an alarm going off
//	tick                        the next alarm goes off
//	restart                     of the process
//	reboot DURATION             of the host, which is off for so long
//	freeze DURATION             of the process
//	sleep DURATION              of the host, with a clock that stands
//
// Expectations, of run and aux: granted, which is the default; refused [TEXT]; waits;
// asks, it waits for a list; or not, with one of these. Of an address, as "10.50.0.9: mac 9": mac BYTE, free, or the state of an address.

// removable has the rules that a scenario can need, by their numbers in docs/protocol.md.
var removable = map[string]ipam.Rule{
	"R30": ipam.RuleUnmarked, "R31": ipam.RuleDoubt, "R32": ipam.RuleLater, "R33": ipam.RuleTwoLists, "R34": ipam.RuleList,
	"R60": ipam.RuleMaking, "R64": ipam.RuleStanding, "R66": ipam.RuleDisturbed,
}

// scenario is one, with its variants not yet made.
type scenario struct {
	name     string
	needs    []string
	steps    []string
	variants []map[string]string // what replaces $X in each
}

// readScenarios reads a file.
func readScenarios(t *testing.T, file string) (all []*scenario) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]*scenario{}
	var s *scenario
	for n, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "":
		case "scenario":
			s = &scenario{name: rest, variants: []map[string]string{{}}}
			all = append(all, s)
		case "define":
			s = &scenario{variants: []map[string]string{{}}}
			defined[rest] = s
		case "needs":
			s.needs = strings.Split(rest, ", ")
		case "given":
			if defined[rest] == nil {
				t.Fatalf("%s:%d: nothing is defined as %q", file, n+1, rest)
			}
			s.steps = append(s.steps, defined[rest].steps...)
		case "for":
			s.vary(rest)
		default:
			s.steps = append(s.steps, fmt.Sprintf("%d %s", n+1, strings.TrimSpace(line)))
		}
	}
	return all
}

// vary multiplies the variants by the values of one variable.
func (s *scenario) vary(text string) {
	name, values, _ := strings.Cut(text, ": ")
	var varied []map[string]string
	for _, v := range s.variants {
		for value := range strings.SplitSeq(values, " | ") {
			one := maps.Clone(v)
			one["$"+name] = value
			varied = append(varied, one)
		}
	}
	s.variants = varied
}

// player plays a scenario on a host.
type player struct {
	testing.TB // takes what the host finds wrong

	cfg    ipam.Config
	h      *machinetest.Host
	net    ipam.Network
	begun  ipam.Mark // of the list that was asked for
	failed string
}

func (p *player) Helper() {}

func (p *player) Errorf(format string, args ...any) { p.failed += fmt.Sprintf(format, args...) + "\n" }

func (p *player) Error(args ...any) { p.failed += fmt.Sprintln(args...) }

// Fatalf and Fatal end the play.
func (p *player) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

func (p *player) Fatal(args ...any) { p.Fatalf("%s", fmt.Sprintln(args...)) }

// play plays one variant, and returns what was not as expected.
func (s *scenario) play(t testing.TB, without ipam.Rule, variant map[string]string) (err error) {
	t.Helper()
	p := &player{TB: t, cfg: ipam.Without(ipam.Config{AwaitInventory: true}, without)}
	at := ""
	defer func() {
		if v := recover(); v != nil {
			fault, ok := v.(error)
			if !ok {
				panic(v)
			}
			err = fmt.Errorf("line %s: %w", at, fault)
		}
	}()
	for _, line := range s.steps {
		for name, value := range variant {
			line = strings.ReplaceAll(line, name, value)
		}
		at = line
		_, step, _ := strings.Cut(line, " ")
		if err := p.line(step); err != nil {
			return fmt.Errorf("line %s: %w", at, err)
		}
		if p.failed != "" {
			return fmt.Errorf("line %s: %s", at, p.failed)
		}
	}
	return nil
}

// line plays a line.
func (p *player) line(step string) error {
	times, steps, repeated := strings.Cut(step, " times: ")
	if !repeated {
		return p.step(step)
	}
	n, err := strconv.Atoi(times)
	for range n {
		for one := range strings.SplitSeq(steps, "; ") {
			if err == nil {
				err = p.step(one)
			}
		}
	}
	return err
}

// step plays a step.
func (p *player) step(step string) error {
	switch step {
	case "no socket":
		p.cfg.AwaitInventory = false
		return nil
	case "no mac":
		p.cfg.NoMAC = true
		return nil
	}
	if p.h == nil {
		p.h = machinetest.NewHost(p, p.cfg)
	}
	does, want, _ := strings.Cut(step, ": ")
	words := strings.Fields(does)
	rest := append(words[1:], "", "", "")
	switch words[0] {
	case "network":
		q := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix(rest[0])}
		switch rest[1] {
		case "", "gateway":
		default:
			q.Range = prefix(rest[1])
		}
		r := p.h.Call(q)
		if r.Err != nil {
			return r.Err
		}
		p.net = r.Pool.Network
		if rest[1] == "gateway" {
			return p.answered(&ipam.AddressRequest{Network: p.net, Purpose: ipam.ForGateway}, want)
		}
	case "on":
		if p.net = plain(rest[0]); rest[1] != "" {
			p.net.Range = prefix(rest[1])
		}
	case "remove":
		p.h.Call(&ipam.PoolRelease{Network: p.net})
	case "run":
		name, mac := holder(rest[0])
		return p.answered(asking(p.net, name, mac, rest[1]), want)
	case "aux":
		return p.answered(plainly(p.net, rest[0]), want)
	case "client":
		return p.answered(&ipam.ClientRequest{Pool: rest[1], Address: address(rest[2]), ID: rest[0]}, want)
	case "release":
		release(p.h, p.net, address(rest[0]))
	case "reserve":
		return p.h.Call(keep(rest[0], rest[2])).Err
	case "list":
		look(p.h, listedIn(strings.TrimSpace(strings.TrimPrefix(does, "list")))...)
	case "answer":
		p.h.Now = p.h.Now.Add(200 * time.Millisecond)
		r, answered := listAnswers(p.h, listedIn(strings.TrimSpace(strings.TrimPrefix(does, "answer")))...)
		return compare(r, answered, want)
	case "begin":
		p.begun = p.h.Mark()
	case "end":
		r := p.h.Call(&ipam.Inventory{After: p.begun, Networks: listedIn(strings.TrimSpace(strings.TrimPrefix(does, "end list")))})
		if want != "" && r.Again.String() != strings.TrimPrefix(want, "again ") {
			return fmt.Errorf("the next list is asked for in %v, want %s", r.Again, want)
		}
	case "greet":
		p.h.Call(&ipam.Greeting{})
	case "blind":
		p.h.Call(&ipam.Blindness{})
	case "gateway":
		return p.answered(&ipam.AddressRequest{Network: p.net, Purpose: ipam.ForGateway, Address: address(rest[0])}, want)
	case "host":
		hostHas(p.h, words[1:]...)
	case "reboot":
		p.h.Reboot(duration(rest[0]))
	case "wait":
		p.h.Now = p.h.Now.Add(duration(rest[0]))
	case "tick":
		p.h.Tick()
	case "restart":
		p.h.Restart()
	case "freeze":
		p.h.Freeze(duration(rest[0]))
	case "sleep":
		p.h.SetClock(duration(rest[0]), true)
	default:
		a, err := netip.ParseAddr(words[0])
		if err != nil {
			return errors.New("there is no such step")
		}
		return p.shown(a, want)
	}
	return nil
}

// answered makes a request, and compares what comes of it.
func (p *player) answered(q ipam.Request, want string) error {
	r, answered := p.h.Try(q)
	if want == "asks" {
		if !slices.ContainsFunc(p.h.Notes, func(n ipam.Note) bool { return n.Kind == ipam.NoteUnclear }) {
			return errors.New("no list is asked for")
		}
		want = "waits"
	}
	err := compare(r, answered, want)
	if asks, ok := q.(*ipam.AddressRequest); ok && err == nil && answered && r.Err == nil && asks.Address.IsValid() && r.Address.Address.Addr() != asks.Address {
		return fmt.Errorf("it gets %v", r.Address.Address)
	}
	return err
}

// compare compares what came of a request.
func compare(r ipam.Reply, answered bool, want string) error {
	got := "waits"
	switch {
	case answered && r.Err != nil:
		got = "refused"
	case answered:
		got = "granted"
	}
	verb, text, _ := strings.Cut(want, " ")
	switch {
	case verb == "not" && got != text, want == "" && got == "granted", verb == got:
	default:
		return fmt.Errorf("it is %s (%v, %w), want %q", got, r.Address.Address, r.Err, want)
	}
	if verb == "refused" && !strings.Contains(r.Err.Error(), text) {
		return fmt.Errorf("the error does not say %[2]q: %[1]w", r.Err, text)
	}
	return nil
}

// shown compares what is known of an address.
func (p *player) shown(a netip.Addr, want string) error {
	s, err := p.h.Machine().Who(p.h.Now, a)
	if err != nil {
		return err
	}
	kind, mac, _ := strings.Cut(want, " ")
	switch {
	case kind == "free" && s.State != "held" && s.State != "gateway":
	case kind == "mac" && s.MAC == (ipam.MAC{2, 0, 0, 0, 0, number(mac)}).String():
	case kind == s.State && mac == "":
	default:
		return fmt.Errorf("it is %+v, want %q", s, want)
	}
	return nil
}

// listedIn reads what an engine lists.
func listedIn(text string) (all []ipam.InventoryNetwork) {
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, " + ") {
		parts := strings.Split(one, ", ")
		net := on(parts[0])
		for _, part := range parts[1:] {
			who, where, _ := strings.Cut(part, " ")
			switch who {
			case "aux":
				net.Auxiliary = append(net.Auxiliary, address(where))
			case "gateway":
				net.Gateways = append(net.Gateways, address(where))
			default:
				name, mac := holder(who)
				net.Endpoints = append(net.Endpoints, listed(where, name, mac))
			}
		}
		all = append(all, net)
	}
	return all
}

// holder reads NAME/MAC.
func holder(text string) (name string, mac byte) {
	name, last, _ := strings.Cut(text, "/")
	if name == "-" {
		name = ""
	}
	return name, number(last)
}

func number(text string) byte {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		panic(err)
	}
	return byte(n)
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// Each scenario comes out as it says, and fails without each rule that it needs.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, s := range readScenarios(t, file) {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+s.name, func(t *testing.T) {
				for _, variant := range s.variants {
					if err := s.play(t, 0, variant); err != nil {
						t.Errorf("%v: %v", variant, err)
					}
				}
				for _, name := range s.needs {
					r, ok := removable[name]
					if !ok {
						t.Fatalf("there is no rule %q", name)
					}
					if !slices.ContainsFunc(s.variants, func(v map[string]string) bool { return s.play(t, r, v) != nil }) {
						t.Errorf("it comes out the same without the rule %q", name)
					}
				}
			})
		}
	}
}
