package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// WatchETCD names the function that tells whether etcd gets the copy of the
// directory. It must be safe for concurrent use and not block. Without it the
// series is missing.
func (m *Metrics) WatchETCD(up func() bool) { m.etcd.up.Store(&up) }

// etcdCollector turns what the mirror tells into a series.
type etcdCollector struct {
	up   atomic.Pointer[func() bool]
	desc *prometheus.Desc
}

func newETCDCollector() *etcdCollector {
	return &etcdCollector{desc: prometheus.NewDesc("ringlet_etcd_up", "1 while etcd gets the copy of the directory (RINGLET_ETCD), else 0. It is missing where no etcd is set.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (c *etcdCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector].
func (c *etcdCollector) Collect(out chan<- prometheus.Metric) {
	up := c.up.Load()
	if up == nil {
		return
	}
	value := 0.0
	if (*up)() {
		value = 1
	}
	out <- gauge(c.desc, value)
}
