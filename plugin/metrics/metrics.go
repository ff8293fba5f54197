// Package metrics counts what ringlet does and shows it to Prometheus. What
// happens is told by the observing methods of [Metrics]; what there is, is
// read from the peer's status when Prometheus asks.
//
// It refuses to know what follows from a number.
//
// # Concurrency
//
// A [Metrics] is safe for concurrent use. The observing methods cost
// nanoseconds and never wait. Reading the status is bounded in time: if the
// peer does not answer soon, the scrape lacks the series that come from it,
// says so in promhttp_metric_handler_errors_total and in the log, and has the
// rest. Old values are never shown as new ones.
//
// # Series
//
// The prefix is ringlet_, units are base units, and _total stands on counters
// only. No label takes a value that grows with addresses, containers or
// clients: pools, and words from fixed lists, are all there is.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/trade"
	"github.com/ringlet/ringlet/plugin/announce"
)

// DefaultTimeout is how long a scrape waits for the peer's status.
const DefaultTimeout = time.Second

// maxScrapes is how many scrapes are answered at a time; more are told to
// come again.
const maxScrapes = 4

// Config is what is known before anything runs; all of it may be zero.
type Config struct {
	Version string       // of the program
	Logger  *slog.Logger // is told of scrapes that lack something; nil: nobody is

	// Timeout is how long a scrape waits for the peer's status; 0 or less:
	// [DefaultTimeout].
	Timeout time.Duration
}

// Metrics has all of the program's series in a registry of its own.
type Metrics struct {
	registry  *prometheus.Registry
	logger    *slog.Logger
	status    *statusCollector
	gossip    *gossipCollector
	directory *directoryCollector
	disk      *diskCollector
	etcd      *etcdCollector

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	commitSeconds  prometheus.Histogram
	commitBatch    prometheus.Histogram
	leaksFound     prometheus.Counter
	leaksMended    prometheus.Counter
	probes         *prometheus.CounterVec
	announcements  *prometheus.CounterVec
	asks           *prometheus.CounterVec
	panics         *prometheus.CounterVec
}

// New returns metrics in which nothing has happened yet. The series of the
// peer's status are missing until [Metrics.Watch] is called.
func New(cfg Config) *Metrics {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	m := &Metrics{
		registry:  prometheus.NewPedanticRegistry(),
		logger:    cfg.Logger,
		status:    newStatusCollector(cfg.Timeout),
		gossip:    newGossipCollector(),
		directory: newDirectoryCollector(),
		disk:      newDiskCollector(),
		etcd:      newETCDCollector(),
		requests: newCounters("ringlet_requests_total",
			"Requests of engines and of the API that were answered, by call and result: ok, the code of the error, or gone, where nobody waited any more.", "call", "result"),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ringlet_request_duration_seconds",
			Help: "How long the answer to a request took, in seconds, by call.",
			// From a fifth of a commit to the deadline of a request.
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20},
		}, []string{"call"}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ringlet_commit_duration_seconds",
			Help: "How long it took to make a batch of changes durable, in seconds.",
			// From a fast disk to one that should be replaced.
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
		commitBatch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "ringlet_commit_batch_size",
			Help:    "How many requests were made durable by one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9), // 1 to 256
		}),
		leaksFound:  newCounter("ringlet_leaks_found_total", "Held addresses of which the engine no longer knew an endpoint."),
		leaksMended: newCounter("ringlet_leaks_mended_total", "Leaked addresses that were freed."),
		probes: newCounters("ringlet_probes_total",
			"Addresses that the LAN was asked about before they were handed out, by result: quiet, answered, failed.", "result"),
		announcements: newCounters("ringlet_announcements_total",
			"Packets that tell neighbours of a container which MAC its address has, by result: sent, failed; and starts of containers: gone before they were announced; unreachable, on a network whose neighbours are not on a link of this host.", "result"),
		asks: newCounters("ringlet_asks_total",
			"Questions to other peers for space, by result: granted; held, full, not-mine, busy: refused; silent: no answer.", "result"),
		panics: newCounters("ringlet_panics_total",
			"Errors of this program that were contained, by where: frame, directory, network, events, journal: one frame or record was lost; node: the database was opened again.", "where"),
	}
	m.beginAtZero()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "ringlet_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": cfg.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		m.requests, m.requestSeconds, m.commitSeconds, m.commitBatch, m.leaksFound, m.leaksMended, m.probes,
		m.announcements, m.asks, m.panics, build, m.status, m.gossip, m.directory, m.disk, m.etcd,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// beginAtZero shows the series of all results from the start: alerts compare with 0.
func (m *Metrics) beginAtZero() {
	for _, where := range Edges() {
		m.panics.WithLabelValues(where)
	}
	for _, result := range trade.Answers() {
		m.asks.WithLabelValues(result)
	}
	for _, result := range []string{ProbeQuiet, ProbeAnswered, ProbeFailed} {
		m.probes.WithLabelValues(result)
	}
	for _, result := range announce.Results() {
		m.announcements.WithLabelValues(result)
	}
}

// newCounter returns a counter that nothing has counted on yet.
func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// newCounters returns one counter for each value of some labels.
func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Watch names the function that reads the peer's status for each scrape. It
// must be safe for concurrent use and return when ctx ends.
func (m *Metrics) Watch(status func(ctx context.Context) (ipam.Status, error)) {
	m.status.read.Store(&status)
}

// Unwatch forgets what [Metrics.WatchDirectory] and [Metrics.WatchGossip] have
// named, as it has ended, and has the status read by another function.
func (m *Metrics) Unwatch(status func(ctx context.Context) (ipam.Status, error)) {
	m.Watch(status)
	m.directory.stats.Store(nil)
	m.gossip.network.Store(nil)
}

// ObserveRequest counts a request of an engine or of the API. call and result
// are words from fixed lists, never what a client sent.
func (m *Metrics) ObserveRequest(call, result string, took time.Duration) {
	m.requests.WithLabelValues(call, result).Inc()
	m.requestSeconds.WithLabelValues(call).Observe(took.Seconds())
}

// ObserveCommit counts a commit that made the effects of batch requests
// durable.
func (m *Metrics) ObserveCommit(batch int, took time.Duration) {
	m.commitBatch.Observe(float64(batch))
	m.commitSeconds.Observe(took.Seconds())
}

// LeaksFound counts n addresses that are held for an endpoint that is gone.
// It panics if n is negative.
func (m *Metrics) LeaksFound(n int) { m.leaksFound.Add(float64(n)) }

// LeaksMended counts n such addresses that were freed. It panics if n is
// negative.
func (m *Metrics) LeaksMended(n int) { m.leaksMended.Add(float64(n)) }

// The results of asking the LAN about an address.
const (
	ProbeQuiet    = "quiet"    // nothing answered
	ProbeAnswered = "answered" // something has the address
	ProbeFailed   = "failed"   // nobody could be asked, or there was no time to
)

// Probed counts an address that the LAN was asked about, by result.
func (m *Metrics) Probed(result string) { m.probes.WithLabelValues(result).Inc() }

// Announced counts what came of an announcement, by result, one of [announce.Results].
func (m *Metrics) Announced(result string) { m.announcements.WithLabelValues(result).Inc() }

// Asked counts a question to another peer, by result, one of [ipam.Answers].
func (m *Metrics) Asked(result string) { m.asks.WithLabelValues(result).Inc() }

// Edges are where a panic is contained, as [Metrics.Panicked] takes them.
func Edges() []string { return []string{"directory", "events", "frame", "journal", "network", "node"} }

// Panicked counts an error of this program that was contained, by where that was, one
// of [Edges].
func (m *Metrics) Panicked(where string) { m.panics.WithLabelValues(where).Inc() }

// Handler answers a scrape. It limits itself: no more than 4 at a time.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog{m.logger},
		ErrorHandling:       promhttp.ContinueOnError,
		Registry:            m.registry,
		MaxRequestsInFlight: maxScrapes,
	})
}

// errorLog turns what promhttp says into lines of ours.
type errorLog struct{ logger *slog.Logger }

// Println implements [promhttp.Logger].
func (l errorLog) Println(v ...any) {
	l.logger.LogAttrs(context.Background(), slog.LevelWarn, "metrics were incomplete", logattr.Err(errors.New(fmt.Sprint(v...))))
}
