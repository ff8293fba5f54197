package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 2, "how often TestClusterRandom has two faults and then peace")
	seed   = flag.Uint64("seed", 0, "what TestClusterRandom draws from; 0 for another one each time")
)

const (
	randomSubnet = "10.61.0.0/27"
	randomRoom   = 32 - 3 // less the network's address, the broadcast and the gateway
	extraSubnet  = "10.62.0.0/28"

	randomSixth = "fd00:61::/120" // that the network has besides, in half of the runs
)

// Containers, networks and decisions come and go on three hosts at random, while two of the hosts at a time suffer something. Nobody
// ever sees two containers with one address; in peace every address is a container's or free, and in the end all of them
// can be had. Another run takes another course, also with the same seed, as the engines keep no time.
func TestClusterRandom(t *testing.T) {
	t.Parallel()
	need(t, "pkill")
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	kind := Config{LiveRestore: r.IntN(2) == 0} // whether containers and plugins live on without their engine
	options, families := []string{"--ipam-opt", "gateway=first"}, 1
	if r.IntN(2) == 0 {
		options, families = append(options, "--ipv6", "--subnet", randomSixth), 2
	}
	mac := r.IntN(4) > 0 // else the engines are as hosts with networks of driver ipvlan need it
	t.Logf("-seed %d -rounds %d, live-restore %v, %d families, MAC %v", *seed, *rounds, kind.LiveRestore, families, mac)
	c := NewClusterOf(t, kind, 3, "RINGLET_REST=2s", "RINGLET_TIMEOUT=10s", fmt.Sprint("RINGLET_MAC=", mac))
	c.Install()
	var users []*user
	for i, e := range c.Engines {
		e.lan("lan", randomSubnet, options...)
		for k := range 2 {
			users = append(users, &user{engine: e, name: fmt.Sprint("user", k), r: rand.New(rand.NewPCG(*seed, uint64(1+2*i+k)))})
		}
	}
	end := c.watch()
	defer end()
	for round := range *rounds {
		c.suffer(fmt.Sprint("round ", round), users, r)
	}
	end()
	c.allCanBeHad(users, families)
}

// suffer lets users go on while two hosts have a fault each, and checks what there is when both are over.
func (c *Cluster) suffer(when string, users []*user, r *rand.Rand) {
	c.t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	rest := sync.OnceFunc(func() {
		close(stop)
		all.Wait()
	})
	defer rest()
	for _, u := range users {
		all.Go(func() { u.goOn(&done, stop) })
	}
	commands := func(n int) {
		from := done.Load()
		Eventually(c.t, readyLimit, "users give commands", func() bool { return done.Load()-from >= int64(n) })
	}
	hosts := r.Perm(len(c.Engines))[:2]
	first := faults[r.IntN(len(faults))]
	second := faults[r.IntN(len(faults))]
	for first.votes && second.votes { // two voters of three would be gone
		second = faults[r.IntN(len(faults))]
	}
	var ends []func()
	for i, f := range []fault{first, second} {
		e := c.Engines[hosts[i]]
		c.t.Logf("%s: %s: %s", when, e.Name, f.name)
		commands(r.IntN(20))
		if end := f.begin(c, e); end != nil {
			ends = append(ends, end)
		}
	}
	r.Shuffle(len(ends), func(i, k int) { ends[i], ends[k] = ends[k], ends[i] })
	for _, end := range ends {
		commands(20 + r.IntN(60))
		end()
	}
	commands(20)
	rest()
	for _, e := range c.Engines {
		Eventually(c.t, readyLimit, e.Name+" takes space", func() bool {
			_, err := e.TryRinglet("drain", "--undo")
			return err == nil
		})
	}

	c.AwaitReady(c.Engines...)
	c.t.Logf("%s: %d commands, %d addresses in use", when, done.Load(), len(c.union(when)))
	c.nothingIsLost()
}

// nothingIsLost waits until every peer knows what each address of each pool is for, and nothing is kept back.
func (c *Cluster) nothingIsLost() {
	c.t.Helper()
	c.Await("each address is for something", c.Engines, func(all []PeerStatus) string {
		for _, st := range all {
			for _, p := range st.Pools {
				if sum := p.Held + p.Resting + p.Ready + p.Free + p.Reserved; sum != p.Size || p.Quarantined != 0 {
					return fmt.Sprintf("%s knows %d of %d addresses of %v, and keeps %d back", st.Self.Name, sum, p.Size, p.Pool, p.Quarantined)
				}
			}
		}
		return ""
	})
}

// allCanBeHad ends what people decided, removes all containers, devices and networks but one, and has every address of
// that used. With two families a container has one of each, so the smaller subnet ends both.
func (c *Cluster) allCanBeHad(users []*user, families int) {
	t := c.t
	t.Helper()
	for _, verb := range []string{"exclude", "reserve"} {
		c.Engines[0].Ringlet(verb, "rm", randomSubnet)
	}
	for _, u := range users {
		u.engine.Ringlet("free", "--for", u.device())
	}
	for _, e := range c.Engines {
		if ids := strings.Fields(e.Docker("ps", "--all", "--quiet")); len(ids) > 0 {
			e.Docker(append([]string{"rm", "--force"}, ids...)...)
		}
		// By their IDs: two users may have made two networks of one name.
		c.unmake(e, strings.Fields(e.Docker("network", "ls", "--quiet", "--filter", "name=extra", "--filter", "name=chosen"))...)
	}
	if got := c.union("with all containers gone"); len(got) != 0 {
		t.Errorf("%v are in use without containers", got)
	}
	c.Await("the pools of one network are left", c.Engines, func(all []PeerStatus) string {
		for i, st := range all {
			for _, p := range st.Pools {
				if p.Pool.String() == extraSubnet { // somebody named it, so it stays until somebody removes it
					_, err := c.Engines[i].TryRinglet("pool", "rm", extraSubnet)
					return fmt.Sprintf("%s has %v: %v", st.Self.Name, p.Pool, err)
				}
			}
			if len(st.Pools) != families {
				return fmt.Sprintf("%s has %v", st.Self.Name, st.Pools)
			}
		}
		return ""
	})
	errs := crowd(c.Engines, "lan", "last", randomRoom/3+1)
	if got := len(c.union("with all used")); got != families*randomRoom {
		t.Errorf("%d of %d addresses can be had", got, families*randomRoom)
	}
	for _, err := range errs {
		refused(t, err, "no free address in "+randomSubnet)
	}
}

// A fault is something that happens to a host.
type fault struct {
	name string
	// votes is set where the peer that there was does not vote any more.
	votes bool
	// begin returns what ends the fault, if anything does.
	begin func(*Cluster, *Engine) (end func())
}

var faults = []fault{
	{name: "the plugin is killed", begin: func(_ *Cluster, e *Engine) func() {
		e.Run("pkill", "-KILL", "-x", "ringlet")
		return nil
	}},
	{name: "the plugin is disabled", begin: func(_ *Cluster, e *Engine) func() {
		e.Docker("plugin", "disable", "--force", Plugin)
		return func() { e.Docker("plugin", "enable", Plugin) }
	}},
	{name: "the plugin is installed anew", votes: true, begin: func(c *Cluster, e *Engine) func() {
		e.Docker("plugin", "rm", "--force", Plugin)
		e.InstallPlugin(c.SettingsAnew(e)...)
		return nil
	}},
	{name: "dockerd is killed", begin: func(_ *Cluster, e *Engine) func() {
		e.Kill()
		return e.Up
	}},
	{name: "dockerd is stopped", begin: func(_ *Cluster, e *Engine) func() {
		e.Stop()
		return e.Up
	}},
	{name: "dockerd hangs", begin: func(_ *Cluster, e *Engine) func() {
		e.Freeze()
		return e.Thaw
	}},
	{name: "the power is off", begin: func(_ *Cluster, e *Engine) func() {
		e.PowerOff()
		return e.Up
	}},
	{name: "a packet of five is lost", begin: func(_ *Cluster, e *Engine) func() {
		return e.drop("-m", "statistic", "--mode", "random", "--probability", "0.2")
	}},
	{name: "the network is cut", begin: func(c *Cluster, e *Engine) func() {
		c.Cut(e)
		return func() { c.Heal(e) }
	}},
	{name: "it is cut off and evicted", votes: true, begin: func(c *Cluster, e *Engine) func() {
		c.Cut(e)
		c.tryEvict(e)
		return func() { c.Heal(e) }
	}},
}

// tryEvict evicts a host that was just cut off, which the others notice after some seconds. Where another host has a fault
// it may be that nobody can.
func (c *Cluster) tryEvict(lost *Engine) {
	c.t.Helper()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	var err error
	for range 20 {
		for _, e := range c.Others(lost) {
			if _, err = e.TryRinglet("evict", lost.Name); err == nil {
				return
			}
		}
		<-again.C
	}
	c.t.Logf("%s is not evicted: %v", lost.Name, err)
}

// A user gives commands at random. What it made it remembers by its name, whether that went well or not.
type user struct {
	engine     *Engine
	name       string
	r          *rand.Rand
	made       int
	containers []string
}

// goOn gives commands until stop is closed, and counts them. That one fails is in the nature of faults.
func (u *user) goOn(done *atomic.Int64, stop <-chan struct{}) {
	pace := time.NewTicker(300 * time.Millisecond) // the processors are for more tests than this
	defer pace.Stop()
	for {
		select {
		case <-stop:
			return
		case <-pace.C:
		}
		command := u.next()
		_, _ = u.engine.Try(command[0], command[1:]...)
		done.Add(1)
	}
}

// next returns a command: most of the time one to the engine, else one to the plugin.
func (u *user) next() []string {
	if u.r.IntN(8) == 0 {
		return append([]string{Built(u.engine.t, "ringlet")}, u.operate()...)
	}
	return append([]string{"docker"}, u.use()...)
}

// use returns what a user of the engine does.
func (u *user) use() []string {
	const most = 8 // each, so that the six of them use all of the subnet now and then
	one := func(args ...string) []string { return append(args, u.containers[u.r.IntN(len(u.containers))]) }
	start := func(args ...string) []string {
		return append(append(args, "--name", u.new(), "--network", u.network()), Demo)
	}
	switch what := u.r.IntN(20); {
	case what == 0:
		return []string{"network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin, "--subnet", extraSubnet, "extra"}
	case what == 1:
		return []string{"network", "create", "--ipam-driver", Plugin, "chosen"}
	case what == 2:
		return []string{"network", "rm", []string{"extra", "chosen"}[u.r.IntN(2)]}
	case len(u.containers) == 0:
		return start("run", "--detach")
	case what < 4 || len(u.containers) > most:
		i := u.r.IntN(len(u.containers))
		gone := u.containers[i]
		u.containers = slices.Delete(u.containers, i, i+1)
		return []string{"rm", "--force", gone}
	case what < 8:
		return start("run", "--detach")
	case what < 9:
		return start("run", "--detach", "--restart", "always")
	case what < 11:
		return []string{"run", "--detach", "--name", u.new(), "--network", "lan", "--ip", u.address(), Demo}
	case what < 12:
		return start("create")
	case what < 13:
		return one("stop", "--time", "0")
	case what < 15:
		return one("start")
	case what < 16:
		return one("restart", "--time", "0")
	case what < 17:
		return one("kill")
	case what < 18:
		return append(one("rename"), u.new()) // the old name stays known, since this may fail
	case what < 19:
		return one("network", "connect", u.network())
	default:
		return one("network", "disconnect", "--force", u.network())
	}
}

// operate returns what an operator does.
func (u *user) operate() []string {
	switch u.r.IntN(9) {
	case 0:
		return []string{"exclude", "add", u.address()}
	case 1:
		return []string{"exclude", "rm", u.address()}
	case 2: // for the container that it makes next
		return []string{"reserve", "add", u.address(), "--for", fmt.Sprintf("%s-%d", u.name, u.made+1)}
	case 3:
		return []string{"reserve", "rm", u.address()}
	case 4:
		return []string{"alloc", "--pool", randomSubnet, "--for", u.device()}
	case 5:
		return []string{"free", "--for", u.device()}
	case 6:
		return []string{"release", u.address()}
	case 7:
		return []string{"drain", "--no-wait"}
	default:
		return []string{"drain", "--undo"}
	}
}

// new returns the name of a container that is to be.
func (u *user) new() string {
	u.made++
	name := fmt.Sprintf("%s-%d", u.name, u.made)
	u.containers = append(u.containers, name)
	return name
}

// device returns the name of something outside Docker.
func (u *user) device() string { return "device of " + u.name }

// address returns one that a container or device can have.
func (u *user) address() string { return fmt.Sprint("10.61.0.", 2+u.r.IntN(randomRoom)) }

func (u *user) network() string {
	return []string{"lan", "lan", "lan", "extra", "chosen"}[u.r.IntN(5)]
}

// watch looks at what containers have on all engines, until it is told to end, and fails the test when two have one address.
func (c *Cluster) watch() (end func()) {
	w := watcher{t: c.t, looks: make([]look, len(c.Engines)), twice: map[pair]twice{}}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i, e := range c.Engines {
		all.Go(func() { // ends when it is told so
			again := time.NewTicker(200 * time.Millisecond)
			defer again.Stop()
			for {
				if found, err := attachments(e); err == nil { // it may be down
					w.saw(i, found)
				}
				select {
				case <-again.C:
				case <-stop:
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stop)
		all.Wait()
	})
}

// A watcher compares what engines say. They are asked one by one, and what one said may be over when another answers, so
// two containers count as having one address together when each of them was seen with it again after the other.
type watcher struct {
	t     testing.TB
	mu    sync.Mutex
	looks []look // by engine
	twice map[pair]twice
}

// A look is what an engine said last.
type look struct {
	number int
	has    []attachment
}

// A pair is two attachments that have one address, of two engines or of one.
type pair struct {
	engines [2]int
	has     [2]attachment
}

// twice are the numbers of the looks at which a pair was seen first.
type twice [2]int

func (w *watcher) saw(engine int, has []attachment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks[engine] = look{number: w.looks[engine].number + 1, has: has}
	now := map[pair]twice{}
	for i, a := range w.looks {
		for k, b := range w.looks[:i+1] {
			for _, x := range a.has {
				for _, y := range b.has {
					if x.address != y.address || x.container == y.container || i == k && x.container < y.container {
						continue
					}
					p := pair{engines: [2]int{i, k}, has: [2]attachment{x, y}}
					first, known := w.twice[p]
					if !known {
						first = twice{a.number, b.number}
					}
					now[p] = first
					if a.number > first[0] && b.number > first[1] {
						w.t.Errorf("%v is on engine %d in container %.12s, and on engine %d in %.12s", x.address, i, x.container, k, y.container)
					}
				}
			}
		}
	}
	w.twice = now
}
