package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/internal/parse"
)

// DefaultPort is the UDP and TCP port of peers where none is named.
const DefaultPort = parse.PeerPort

// HealthPort is the TCP port of [Config].Health where none is named.
const HealthPort = 7952

// KeySize is the length of a cluster key in bytes (AES-256).
const KeySize = 32

// HealthOff is the value of RINGLET_HEALTH that gives a host no health address.
const HealthOff = "off"

// HTTPOff is the value of [HTTP].Address that opens no TCP port.
const HTTPOff = "off"

// Deal is how much of a new pool is dealt out to the peers at once; the rest
// stays free until one of them needs it.
type Deal string

// The deals that exist.
const (
	DealHalf Deal = "half"
	DealAll  Deal = "all"
	DealNone Deal = "none"
)

// The log formats that exist; see [Config].LogFormat.
const (
	LogText = "text"
	LogJSON = "json"
)

// Bootstrap is how the first decision of a new cluster is made. The zero
// value leaves the size to the number of hosts in Join.
type Bootstrap struct {
	N        int  // peers that found the cluster together, 1 to 255; 0 if not given
	Observer bool // take part without a vote in the founding
}

// Subnet is the size of a subnet that is chosen for a network, as prefix
// lengths.
type Subnet struct {
	V4 int // 8 to 30
	V6 int // 64 to 126
}

// Config is the plugin's settings, checked by [Load].
type Config struct {
	Name string // what people call this peer; 1 to 255 bytes of printable UTF-8 without spaces
	Zone string // what fails together with this host; at most 64 bytes of printable UTF-8 without spaces and commas; empty: not said

	Bind      netip.AddrPort // where peers reach this one; the port is never 0
	Advertise netip.AddrPort // what is told to peers; the zero value means an address of the host, a private one if possible, and Bind's port
	Join      []string       // host:port of peers to ask, IPv6 addresses in brackets, no duplicates, in the order given
	Bootstrap Bootstrap
	Cluster   string   // the cluster's label, 1 to 16 letters, digits and hyphens
	Keys      [][]byte // each KeySize long, the first encrypts, all decrypt; empty without encryption
	KeyFile   string   // where Keys came from, to be read again when it changes; empty if they came from RINGLET_KEY
	Insecure  bool     // allowed to talk to peers without a key

	Universe  []netip.Prefix // where subnets are chosen from; masked, free of overlap
	DeriveULA bool           // the user named no universe: add the /48 that is derived from the cluster's ID
	Subnet    Subnet
	Avoid     []netip.Prefix // never chosen, masked

	EvictAfter time.Duration // silence after which a peer leaves the roster; 0 means never
	Deal       Deal
	Chunk      int           // addresses opened at once, 1 to 65,536; 0 means by the size of pool and cluster
	Quarantine time.Duration // after which an evicted peer's ranges may be taken; 0 means never
	BootAlone  bool          // serve from its own ranges after a host's boot although no majority answers
	Rest       time.Duration // how long a freed address is not handed out, 0 to 24 h
	Timeout    time.Duration // deadline of a request, 1 s to 28 s

	MAC bool // engines give each endpoint a MAC before they ask for its address

	Announce bool // containers that start are announced to their neighbours

	DefaultPool string // pool of ringlet alloc without one, by CIDR or name; empty: the only pool

	IdentityLabels []string // names of labels, or prefixes that end with *, that count for identities; empty: containers have none

	ETCD ETCD

	Health netip.AddrPort // address of this host on the network of the containers, where it answers other hosts; the zero value: none

	HTTP HTTP

	LogLevel  slog.Level
	LogFormat string // LogText or LogJSON
}

// HTTP is how metrics, status page and API are served over TCP.
type HTTP struct {
	Address string   // host:port, the host may be empty; or HTTPOff
	Hosts   []string // names by which it may be asked beside this host's own, in lower case
	Cert    string   // file with its certificate; empty: no TLS
	Key     string   // file with the private key of Cert; empty if that is
	Token   string   // what a write must show, 16 characters or more; empty allows none
}

// ETCD is the etcd that gets a copy of the directory.
type ETCD struct {
	URLs         []string // all http or all https; empty: none
	CA           string   // file with the certificates that sign those of URLs; empty: those of the host
	Cert         string   // file with this host's certificate; empty: none
	Key          string   // file with the private key of Cert; empty if that is
	User         string   // empty: none
	PasswordFile string   // file with the password of User; empty if that is
}
