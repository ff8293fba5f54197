package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringlet/ringlet/gossip"
)

// network is where the series of the network between peers come from.
type network struct {
	status  func() gossip.Status
	refused func() uint64
}

// WatchGossip names the functions that tell how the network between peers is,
// and how many frames that it delivered were refused. They must be safe for
// concurrent use and not block. Without them the series are missing.
func (m *Metrics) WatchGossip(status func() gossip.Status, refused func() uint64) {
	m.gossip.network.Store(&network{status, refused})
}

// gossipCollector turns the status of the network into series.
type gossipCollector struct {
	network atomic.Pointer[network]

	peers, queued, sent, repeated, unconfirmed, received, refused, broadcasts, broadcastsDropped, encrypted, strangers *prometheus.Desc
}

func newGossipCollector() *gossipCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ringlet_gossip_"+name, help, labels, nil)
	}
	return &gossipCollector{
		peers:             desc("peers", "Other peers that the network knows, by state: alive, unreachable.", "state"),
		queued:            desc("broadcasts_queued", "Broadcasts that are still being sent."),
		sent:              desc("frames_sent_total", "Frames for one other peer, by result: ok (handed to the network), failed, dropped (waited too long, or too many did), unknown (no address), oversize.", "result"),
		repeated:          desc("frames_repeated_total", "Frames for one other peer that were sent again, as the network had lost them or their acknowledgements."),
		unconfirmed:       desc("frames_unconfirmed_total", "Frames for one other peer that were sent and for which no acknowledgement came."),
		received:          desc("frames_received_total", "Frames that arrived, by result: ok, duplicate (came before), overrun (too many waited), undecodable.", "result"),
		refused:           desc("frames_refused_total", "Frames that arrived well, and could not be read or were too many for this peer."),
		broadcasts:        desc("broadcasts_total", "Frames taken as broadcasts."),
		broadcastsDropped: desc("broadcasts_dropped_total", "Broadcasts that gave way to newer ones before they were sent often enough."),
		encrypted:         desc("packets_encrypted_total", "Packets, and messages of streams, that were sent and encrypted; a key is good for 2^32 on all hosts together."),
		strangers: prometheus.NewDesc("ringlet_strangers_refused_total",
			"Packets and streams on the port for other hosts that were refused, by reason: unlabelled (from no peer), label (of another cluster), type (no message of a peer's), plain (not encrypted), encrypted (and this host has no key), version (of the encryption), length, budget (not tried, as too many of its source could not be decrypted), key (no key of this host's opens it), cut (ended too soon), time (too slow), room (too many streams, or bytes), target (an answer to nobody who is known).",
			[]string{"reason"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *gossipCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.peers, c.queued, c.sent, c.repeated, c.unconfirmed, c.received, c.refused,
		c.broadcasts, c.broadcastsDropped, c.encrypted, c.strangers,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *gossipCollector) Collect(out chan<- prometheus.Metric) {
	n := c.network.Load()
	if n == nil {
		return
	}
	st := n.status()
	out <- gauge(c.peers, float64(st.Alive), "alive")
	out <- gauge(c.peers, float64(max(st.Known-st.Alive, 0)), "unreachable")
	out <- gauge(c.queued, float64(st.Queued))
	out <- counter(c.sent, st.Counts.Sent, "ok")
	out <- counter(c.sent, st.Counts.Failed, "failed")
	out <- counter(c.sent, st.Counts.Dropped, "dropped")
	out <- counter(c.sent, st.Counts.Unknown, "unknown")
	out <- counter(c.sent, st.Counts.Oversize, "oversize")
	out <- counter(c.repeated, st.Counts.Repeated)
	out <- counter(c.unconfirmed, st.Counts.Unconfirmed)
	out <- counter(c.received, st.Counts.Received, "ok")
	out <- counter(c.received, st.Counts.Duplicate, "duplicate")
	out <- counter(c.received, st.Counts.Overrun, "overrun")
	out <- counter(c.received, st.Counts.Undecodable, "undecodable")
	out <- counter(c.refused, n.refused())
	out <- counter(c.broadcasts, st.Counts.Broadcast)
	out <- counter(c.broadcastsDropped, st.Counts.BroadcastsDropped)
	out <- counter(c.encrypted, st.Counts.Encrypted)
	for reason, n := range st.Counts.Refused {
		out <- counter(c.strangers, n, reason)
	}
}

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
