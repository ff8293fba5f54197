package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// WatchDisk names the function that tells how much is free on the disk with the
// peer's data, in bytes, and false if that is not known. It must be safe for
// concurrent use and not block. Without it the series is missing.
func (m *Metrics) WatchDisk(free func() (bytes uint64, ok bool)) { m.disk.free.Store(&free) }

// diskCollector turns what the disk tells into a series.
type diskCollector struct {
	free atomic.Pointer[func() (bytes uint64, ok bool)]
	desc *prometheus.Desc
}

func newDiskCollector() *diskCollector {
	return &diskCollector{desc: prometheus.NewDesc("ringlet_disk_free_bytes", "Free on the disk with the data of this peer, for its user. It is missing where the file system does not say.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (c *diskCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector].
func (c *diskCollector) Collect(out chan<- prometheus.Metric) {
	free := c.free.Load()
	if free == nil {
		return
	}
	if n, ok := (*free)(); ok {
		out <- gauge(c.desc, float64(n))
	}
}
