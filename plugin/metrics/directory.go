package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringlet/ringlet/plugin/directory"
)

// WatchDirectory names the function that tells how the cluster's directory does
// on this peer. It must be safe for concurrent use and not block. Without it the
// series are missing.
func (m *Metrics) WatchDirectory(stats func() directory.Stats) { m.directory.stats.Store(&stats) }

// directoryCollector turns what the directory tells into series.
type directoryCollector struct {
	stats atomic.Pointer[func() directory.Stats]

	peers, keys, exchanges, bytes, lost, age, identities, locks *prometheus.Desc
}

func newDirectoryCollector() *directoryCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ringlet_directory_"+name, help, labels, nil)
	}
	return &directoryCollector{
		peers:     desc("peers", "Peers whose keys this peer shows, itself included."),
		keys:      desc("keys", "Keys that this peer shows."),
		exchanges: desc("exchanges_total", "Comparisons with another peer that this peer began."),
		bytes:     desc("bytes_total", "Bytes of the directory's frames, by direction: sent (to one other peer), received.", "direction"),
		lost:      desc("frames_lost_total", "Frames of the directory that arrived and were not taken in, by reason: refused (of another cluster, or not readable), dropped (too many waited).", "reason"),
		age:       desc("heartbeat_age_seconds", "Since a change of the directory's heartbeat was seen, which is renewed every minute. It is missing before the first one."),

		locks:      prometheus.NewDesc("ringlet_locks", "Locks of the cluster that are held.", nil, nil),
		identities: desc("identities", "Label sets of containers that have a number (an identity) in the cluster. There are at most 16,384."),
	}
}

// Describe implements [prometheus.Collector].
func (c *directoryCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.peers, c.keys, c.exchanges, c.bytes, c.lost, c.age, c.identities, c.locks} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *directoryCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats.Load()
	if stats == nil {
		return
	}
	st := (*stats)()
	out <- gauge(c.peers, float64(st.Peers))
	out <- gauge(c.keys, float64(st.Records))
	out <- counter(c.exchanges, st.Exchanges)
	out <- counter(c.bytes, st.Sent, "sent")
	out <- counter(c.bytes, st.Received, "received")
	out <- counter(c.lost, st.Refused, "refused")
	out <- counter(c.lost, st.Dropped, "dropped")
	out <- gauge(c.identities, float64(st.Identities))
	out <- gauge(c.locks, float64(st.Locks))
	if st.HeartbeatAge > 0 {
		out <- gauge(c.age, st.HeartbeatAge.Seconds())
	}
}
