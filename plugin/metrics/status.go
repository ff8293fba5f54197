package metrics

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringlet/ringlet/ipam"
)

// codeConflict is the code of the problem that an address is used by an
// endpoint that does not hold it.
const codeConflict = "conflict"

// stateEvicted is the state of a peer that is of the cluster no more.
const stateEvicted = "evicted"

// standings are all states of this peer.
func standings() []ipam.State {
	return []ipam.State{
		ipam.Alone, ipam.Forming, ipam.Joining, ipam.Checking, ipam.Ready, ipam.CutOff, ipam.Leaving, ipam.Left, ipam.Outdated, ipam.Suspended,
	}
}

// statusCollector turns a peer's status into series, anew for each scrape, so
// that those of a pool end with the pool.
type statusCollector struct {
	timeout time.Duration
	read    atomic.Pointer[func(ctx context.Context) (ipam.Status, error)]

	addresses, size, ranges, state, peers, unreachable, health, slot, commands, conflicts, problems, age *prometheus.Desc
}

func newStatusCollector(timeout time.Duration) *statusCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &statusCollector{
		timeout: timeout,

		addresses:   desc("ringlet_addresses", "Addresses of a pool by state: held, resting, ready, free, reserved, quarantined. They add up to its size.", "pool", "state"),
		size:        desc("ringlet_pool_size", "Addresses of a pool.", "pool"),
		ranges:      desc("ringlet_ranges", "Ranges that a pool is cut into, by whose they are: own, others, free, reserved.", "pool", "state"),
		state:       desc("ringlet_state", "How this peer stands among others: 1 for its state, 0 for all other states.", "state"),
		peers:       desc("ringlet_peers", "Peers of the cluster by state: filling, active, draining; evicted are those that were of it.", "state"),
		unreachable: desc("ringlet_peers_unreachable", "Peers of the cluster that this one cannot reach."),
		health:      desc("ringlet_health_peers", "Peers by what became of the last question to their health address: answers, silent. It is missing where none was asked (RINGLET_HEALTH).", "state"),
		slot:        desc("ringlet_chronicle_slot", "Last slot of the chronicle that this peer knows."),
		commands:    desc("ringlet_commands_pending", "Commands of this peer that wait to be decided."),
		conflicts:   desc("ringlet_conflicts", "Addresses that an endpoint uses and another holder has."),
		problems:    desc("ringlet_problems", "Problems of the status by code and level: degraded, failed. Those that there are not have no series.", "code", "level"),
		age:         desc("ringlet_status_age_seconds", "How old the status is that these series are from: more than a moment while the allocator does not answer."),
	}
}

// Describe implements [prometheus.Collector].
func (c *statusCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.addresses, c.size, c.ranges, c.state, c.peers, c.unreachable, c.health,
		c.slot, c.commands, c.conflicts, c.problems, c.age,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *statusCollector) Collect(out chan<- prometheus.Metric) {
	read := c.read.Load()
	if read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	st, err := (*read)(ctx)
	if err != nil {
		// One error is enough, whichever series it stands at.
		out <- prometheus.NewInvalidMetric(c.slot, fmt.Errorf("the peer's status cannot be read: %w", err))
		return
	}

	out <- gauge(c.slot, float64(st.Slot))
	out <- gauge(c.commands, float64(st.Pending))
	for _, s := range standings() {
		n := 0.0
		if s == st.State {
			n = 1
		}
		out <- gauge(c.state, n, string(s))
	}
	c.cluster(out, st)
	c.wrong(out, st)
	if !st.AsOf.IsZero() {
		out <- gauge(c.age, max(0, time.Since(st.AsOf).Seconds()))
	}
	for _, p := range st.Pools {
		c.pool(out, p, st.Self.ID)
	}
}

// wrong tells of the problems.
func (c *statusCollector) wrong(out chan<- prometheus.Metric, st ipam.Status) {
	type kind struct{ code, level string }
	problems := map[kind]int{}
	conflicts := 0
	for _, p := range st.Problems {
		if p.Level == string(ipam.Fine) {
			continue // a note: nothing is wrong
		}
		problems[kind{p.Code, p.Level}]++
		if p.Code == codeConflict {
			conflicts++
		}
	}
	out <- gauge(c.conflicts, float64(conflicts))
	for k, n := range problems {
		out <- gauge(c.problems, float64(n), k.code, k.level)
	}
}

// cluster tells of the peers of the cluster, and those that were evicted.
func (c *statusCollector) cluster(out chan<- prometheus.Metric, st ipam.Status) {
	states := map[string]int{"filling": 0, "active": 0, "draining": 0, stateEvicted: 0} // also without a peer: alerts compare with 0
	unreachable, answering, silent := 0, 0, 0
	for _, p := range st.Peers {
		states[p.State]++
		switch {
		case p.Health.Address == "":
		case p.Health.Answers:
			answering++
		default:
			silent++
		}
		if !p.Reachable && p.State != stateEvicted && p.ID != st.Self.ID {
			unreachable++
		}
	}
	for state, n := range states {
		out <- gauge(c.peers, float64(n), state)
	}
	out <- gauge(c.unreachable, float64(unreachable))
	if answering+silent > 0 {
		out <- gauge(c.health, float64(answering), "answers")
		out <- gauge(c.health, float64(silent), "silent")
	}
}

func (c *statusCollector) pool(out chan<- prometheus.Metric, p ipam.PoolStatus, self string) {
	name := p.Pool.String()
	out <- gauge(c.size, float64(p.Size), name)
	for _, s := range []struct {
		state string
		n     uint64
	}{
		{"held", p.Held},
		{"resting", p.Resting},
		{"ready", p.Ready},
		{"free", p.Free},
		{"reserved", p.Reserved},
		{"quarantined", p.Quarantined},
	} {
		out <- gauge(c.addresses, float64(s.n), name, s.state)
	}
	ranges := map[string]int{"own": 0, "others": 0, "free": 0, "reserved": 0}
	for _, r := range p.Holders {
		switch r.Owner {
		case self:
			ranges["own"]++
		case "free", "reserved":
			ranges[r.Owner]++
		default:
			ranges["others"]++
		}
	}
	for state, n := range ranges {
		out <- gauge(c.ranges, float64(n), name, state)
	}
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
