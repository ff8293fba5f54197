package config

import (
	"errors"
	"fmt"
	"slices"
)

// Setting is one entry of the table: what an operator may set and what it
// means. All texts are single lines.
type Setting struct {
	Name    string // of the environment variable and of `docker plugin set`
	Default string // as a user would write it; empty if it comes from the host, or if nothing is the default
	Auto    string // what an empty Default stands for, or what is added to it; for the manual
	Range   string // what is accepted
	Example string // a value that is accepted, other than the default
	Meaning string // also the description in the plugin's manifest
	Effect  string // what a change does on a live cluster
	Secret  bool   // its value is never shown

	parse func(cfg *Config, value string, src source) error
}

// Settings returns the table, in the order of the manual.
func Settings() []Setting { return table() }

// Shared returns the names of the settings that are the same on all hosts of a cluster.
func Shared() []string {
	return []string{
		"RINGLET_CLUSTER", "RINGLET_INSECURE", "RINGLET_UNIVERSE", "RINGLET_SUBNET", "RINGLET_AVOID",
		"RINGLET_EVICT_AFTER", "RINGLET_IDENTITY_LABELS", "RINGLET_ETCD",
	}
}

func (s Setting) problem(given string, err error) error {
	if s.Secret || hasKey(given) {
		given = ""
	}
	return &Error{Name: s.Name, Value: given, Accepted: s.Range, Example: s.Example, Err: err}
}

// misplaced refuses a value of this setting that has a key in it: the operator took
// the setting for another. The key would be shown and logged; as a name, other hosts
// would see it too.
func (s Setting) misplaced(value string) error {
	if s.Secret || !hasKey(value) {
		return nil
	}
	return errors.New("this is a key: set RINGLET_KEY to it")
}

// setting returns the entry of the table with that name.
func setting(name string) Setting {
	all := table()
	return all[slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })]
}

func names() []string {
	var all []string
	for _, s := range table() {
		all = append(all, s.Name)
	}
	return all
}

// table is the one source of all settings. RINGLET_BIND comes before the
// settings that take its port.
func table() []Setting {
	return slices.Concat(peers, space, cluster, serving, shared)
}

// peers are the settings about the identity of this peer and the other ones.
var peers = []Setting{{
	Name: "RINGLET_NAME", Auto: "the host's name",
	Range:   "1 to 255 bytes of printable text without spaces, commas and slashes, not beginning with a hyphen",
	Example: "host-a",
	Meaning: "name of this host, in commands and messages",
	Effect:  "the host is shown under the new name from the next start; no address moves",
	parse:   parseName,
}, {
	Name: "RINGLET_ZONE", Auto: "none: all hosts without a zone are in one",
	Range:   "at most 64 bytes of printable text without spaces and commas",
	Example: "rack-1",
	Meaning: "what fails together with this host, such as its rack: votes and ranges are spread over zones",
	Effect:  "from the next start; other hosts may vote; no address moves",
	parse:   parseZone,
}, {
	Name: "RINGLET_BIND", Default: fmt.Sprintf("0.0.0.0:%d", DefaultPort),
	Range:   "address[:port] (port 1 to 65535, by default 7950)",
	Example: "192.168.1.10:7950",
	Meaning: "address and port on which this host listens for other hosts, UDP and TCP",
	Effect:  "others find the peer at the new address after its next start",
	parse:   parseBind,
}, {
	Name: "RINGLET_ADVERTISE", Auto: "the host's address on the route to the hosts in RINGLET_JOIN; without them a private address, that of the default route first",
	Range:   "address[:port] that other hosts can reach (the port is by default that of RINGLET_BIND)",
	Example: "192.168.1.10:7950",
	Meaning: "address and port at which other hosts reach this one",
	Effect:  "others find the peer at the new address after its next start",
	parse:   parseAdvertise,
}, {
	Name: "RINGLET_JOIN", Auto: "none: this host is the first of its cluster",
	Range:   "a comma list of host[:port], names or addresses (the port is by default that of RINGLET_BIND)",
	Example: "host-a,192.168.1.11,[fd00::12]:7950",
	Meaning: "hosts of the cluster, to find it; or all hosts that found it together, the same list on each; empty on the first host",
	Effect:  "none once the host is in the cluster: it remembers the other hosts",
	parse:   parseJoin,
}, {
	Name: "RINGLET_BOOTSTRAP", Auto: "the number of hosts in RINGLET_JOIN",
	Range:   "empty, a number of hosts from 1 to 255, or observer",
	Example: "3",
	Meaning: "how many hosts found the cluster together; observer: without this one",
	Effect:  "none once the cluster is founded",
	parse:   parseBootstrap,
}, {
	Name: "RINGLET_CLUSTER", Default: "ringlet",
	Range:   "1 to 16 letters, digits and hyphens, a hyphen neither first nor last",
	Example: "lab-2",
	Meaning: "label of the cluster; hosts with another label are refused",
	Effect:  "the host no longer reaches its cluster: set it before the first start and never again",
	parse:   parseCluster,
}, {
	Name: "RINGLET_KEY", Auto: "none", Secret: true,
	Range:   "a comma list of keys, each 32 bytes in base64, as `ringlet keygen` prints",
	Example: "$(ringlet keygen)", // a real key would be copied, and then known to all
	Meaning: "keys of the cluster; the first encrypts, all decrypt",
	Effect:  "hosts without a common key do not reach each other: add the new key second on all, then put it first on all, then remove the old one",
	parse:   parseKeys,
}, {
	Name: "RINGLET_KEY_FILE", Auto: "none",
	Range:   "the path of a file with one key per line (a line that begins with # is a comment)",
	Example: "/data/keys",
	Meaning: "file with the keys of the cluster, in place of RINGLET_KEY",
	Effect:  "as for RINGLET_KEY",
	parse:   parseKeyFile,
}, {
	Name: "RINGLET_INSECURE", Default: "false",
	Range:   "true or false",
	Example: "true",
	Meaning: "true lets this host join others without a key; nothing is encrypted then",
	Effect:  "from the next start, for this host only",
	parse:   parseInsecure,
}}

// space are the settings about which subnets are chosen.
var space = []Setting{{
	Name: "RINGLET_UNIVERSE", Default: "10.32.0.0/12", Auto: "and an IPv6 /48 derived from the cluster's ID",
	Range:   "a comma list of subnets without overlap, IPv4 from /8 to /30, IPv6 from /48 to /64, none smaller than RINGLET_SUBNET",
	Example: "10.64.0.0/12,fd12:3456:789a::/48",
	Meaning: "where ringlet chooses a subnet if a network names none",
	Effect:  "for later choices; existing pools stay as they are; set the same on all hosts",
	parse:   parseUniverse,
}, {
	Name: "RINGLET_SUBNET", Default: fmt.Sprintf("%d,%d", defaultV4, defaultV6),
	Range:   "an IPv4 prefix length from 8 to 30, an IPv6 prefix length from 64 to 126, or both",
	Example: "26,64",
	Meaning: "size of the subnets that ringlet chooses, as prefix lengths for IPv4 and IPv6",
	Effect:  "for later choices; existing pools stay as they are; set the same on all hosts",
	parse:   parseSubnet,
}, {
	Name: "RINGLET_AVOID", Auto: "none",
	Range:   "a comma list of subnets",
	Example: "10.40.0.0/16,192.168.1.0/24",
	Meaning: "subnets that ringlet never chooses, in addition to those to which the host has routes",
	Effect:  "for later choices; existing pools stay as they are; set the same on all hosts",
	parse:   parseAvoid,
}}

// cluster are the settings about how space is shared out and comes back.
var cluster = []Setting{{
	Name: "RINGLET_EVICT_AFTER", Default: "15m",
	Range:   "a duration from 10s to 8760h, or never",
	Example: "1h",
	Meaning: "how long a host is unreachable before the cluster evicts it; it keeps its addresses",
	Effect:  "from the next start, for evictions that this host proposes; set the same on all hosts",
	parse:   parseEvictAfter,
}, {
	Name: "RINGLET_DEAL", Default: string(DealHalf),
	Range:   "half, all or none",
	Example: string(DealAll),
	Meaning: "how much of a new pool the hosts get at once, in equal ranges",
	Effect:  "for new pools of this host; existing pools stay as they are",
	parse:   parseDeal,
}, {
	Name: "RINGLET_CHUNK", Default: "auto",
	Range:   "auto, or a number of addresses from 1 to 65536",
	Example: "256",
	Meaning: "how many addresses this host takes at once when it needs more; auto depends on the size of pool and cluster",
	Effect:  "for ranges that this host takes later; it keeps those that it has",
	parse:   parseChunk,
}, {
	Name: "RINGLET_QUARANTINE", Default: "never",
	Range:   "a duration from 1m to 8760h, or never",
	Example: "72h",
	Meaning: "how long after an eviction the host's addresses go to other hosts; never: only with ringlet forget",
	Effect:  "counts from each eviction; a host that returns later is suspended, until ringlet rejoin there; if it was only cut off, addresses are used twice",
	parse:   parseQuarantine,
}, {
	Name: "RINGLET_BOOT_ALONE", Default: "true",
	Range:   "true or false",
	Example: "false",
	Meaning: "false: after each start, ringlet hands out no addresses until a majority answers; true: it waits at most RINGLET_TIMEOUT",
	Effect:  "from the next start",
	parse:   parseBootAlone,
}, {
	Name: "RINGLET_REST", Default: "5m",
	Range:   "a duration from 0s to 24h",
	Example: "1m",
	Meaning: "how long a freed address rests before another container may get it",
	Effect:  "for addresses that are freed later",
	parse:   parseRest,
}}

// fromNextConnection is what a change of a file about etcd does.
const fromNextConnection = "from the next start; a replaced file is read at the next connection"

// shared are the settings about the directory, and its copy in an etcd.
var shared = []Setting{{
	Name: "RINGLET_IDENTITY_LABELS", Default: "com.docker.compose.project,com.docker.compose.service,com.docker.stack.namespace,com.docker.swarm.service.name",
	Range:   "a comma list of names of labels, or of prefixes with * at the end; or none",
	Example: "com.docker.compose.project,com.example.team*",
	Meaning: "labels that make a container's identity: if they are equal, containers have one number on all hosts; none: no identities",
	Effect:  "from the next start; containers get other numbers; set the same on all hosts",
	parse:   parseIdentityLabels,
}, {
	Name: "RINGLET_ETCD", Auto: "none: no copy",
	Range:   "a comma list of URLs http://host:port or https://host:port of one etcd v3, all http or all https",
	Example: "https://etcd-1:2379,https://etcd-2:2379",
	Meaning: "etcd in which this host keeps a copy of its part of the directory; ringlet works without it",
	Effect:  "from the next start; the host's keys in the earlier etcd vanish within 15 minutes; set the same on all hosts",
	parse:   parseETCD,
}, {
	Name: "RINGLET_ETCD_CA", Auto: "the certificates that the host trusts, which a plugin does not have",
	Range:   "the path of a PEM file (RINGLET_ETCD is https)",
	Example: "/data/etcd/ca.pem",
	Meaning: "file with the certificates that sign those of etcd",
	Effect:  fromNextConnection,
	parse:   parseETCDCA,
}, {
	Name: "RINGLET_ETCD_CERT", Auto: "none",
	Range:   "the path of a PEM file (RINGLET_ETCD_KEY is set, too)",
	Example: "/data/etcd/cert.pem",
	Meaning: "file with the certificate that this host shows to etcd",
	Effect:  fromNextConnection,
	parse:   parseETCDCert,
}, {
	Name: "RINGLET_ETCD_KEY", Auto: "none",
	Range:   "the path of a PEM file (RINGLET_ETCD_CERT is set, too)",
	Example: "/data/etcd/key.pem",
	Meaning: "file with the private key of RINGLET_ETCD_CERT",
	Effect:  fromNextConnection,
	parse:   parseETCDKey,
}, {
	Name: "RINGLET_ETCD_USER", Auto: "none",
	Range:   "1 to 255 visible ASCII characters (RINGLET_ETCD_PASSWORD_FILE is set, too)",
	Example: "ringlet",
	Meaning: "user of etcd that may read and write the keys below ringlet/",
	Effect:  "from the next start",
	parse:   parseETCDUser,
}, {
	Name: "RINGLET_ETCD_PASSWORD_FILE", Auto: "none",
	Range:   "the path of a file with the password in its first line (RINGLET_ETCD_USER is set, too)",
	Example: "/data/etcd/password",
	Meaning: "file with the password of RINGLET_ETCD_USER",
	Effect:  fromNextConnection,
	parse:   parseETCDPassword,
}}

// serving are the settings about requests, the API and the log.
var serving = []Setting{{
	Name: "RINGLET_TIMEOUT", Default: "20s",
	Range:   "a duration from 1s to 28s, because the engine gives up after 30s",
	Example: "10s",
	Meaning: "how long a request may wait for other hosts before it fails with the reason",
	Effect:  "from the next start",
	parse:   parseTimeout,
}, {
	Name: "RINGLET_MAC", Default: "true",
	Range:   "true or false",
	Example: "false",
	Meaning: "false on hosts with ipvlan networks: that driver starts no container with a MAC from the engine",
	Effect:  "from the next start",
	parse:   parseMAC,
}, {
	Name: "RINGLET_ANNOUNCE", Default: "true",
	Range:   "true or false",
	Example: "false",
	Meaning: "false: when a container starts, ringlet does not announce its MAC to the neighbours",
	Effect:  "from the next start",
	parse:   parseAnnounce,
}, {
	Name: "RINGLET_DEFAULT_POOL", Auto: "the only pool",
	Range:   "the name or the CIDR of a pool, or the name of a Docker network of this host",
	Example: "lab",
	Meaning: "pool of ringlet alloc and of POST /v1/addresses if they name none",
	Effect:  "from the next start",
	parse:   parseDefaultPool,
}, {
	Name: "RINGLET_HEALTH", Default: HealthOff,
	Range:   "off, or address[:port] of this host on the network of the containers (port 1 to 65535, by default 7952)",
	Example: "10.1.0.5",
	Meaning: "health address: other hosts with one ask there over TCP whether that network works, and this host asks at theirs",
	Effect:  "from the next start; no address moves",
	parse:   parseHealth,
}, {
	Name: "RINGLET_HTTP", Default: HTTPOff,
	Range:   "off, or host:port (the host may be left out)",
	Example: "127.0.0.1:7951",
	Meaning: "where ringlet serves metrics, status page and API over TCP; read-only without RINGLET_TOKEN",
	Effect:  "from the next start",
	parse:   parseHTTP,
}, {
	Name: "RINGLET_HTTP_HOSTS", Auto: "only RINGLET_NAME, the host's name, localhost and IP addresses",
	Range:   "a comma list of host names",
	Example: "ringlet.example.com,host-a.example.com",
	Meaning: "further host names under which RINGLET_HTTP answers; others are refused, because a hostile page could use them",
	Effect:  "from the next start",
	parse:   parseHTTPHosts,
}, {
	Name: "RINGLET_HTTP_CERT", Auto: "none: no TLS",
	Range:   "the path of a PEM file with the certificate, then those of its issuers (RINGLET_HTTP_KEY is set, too)",
	Example: "/data/tls/cert.pem",
	Meaning: "file with the certificate of RINGLET_HTTP, which then speaks only TLS",
	Effect:  "from the next start; a replaced file is read within 10 seconds",
	parse:   parseHTTPCert,
}, {
	Name: "RINGLET_HTTP_KEY", Auto: "none: no TLS",
	Range:   "the path of a PEM file with the private key (RINGLET_HTTP_CERT is set, too)",
	Example: "/data/tls/key.pem",
	Meaning: "file with the private key of the certificate of RINGLET_HTTP",
	Effect:  "as for RINGLET_HTTP_CERT",
	parse:   parseHTTPKey,
}, {
	Name: "RINGLET_TOKEN", Auto: "none: no writes over TCP", Secret: true,
	Range:   "16 to 1024 visible ASCII characters",
	Example: "a-long-random-text",
	Meaning: "token that a request must have to change something over TCP",
	Effect:  "the old token is refused from the next start",
	parse:   parseToken,
}, {
	Name: "LOG_LEVEL", Default: "info",
	Range:   "debug, info, warn or error",
	Example: "debug",
	Meaning: "lowest level that is logged",
	Effect:  "from the next start",
	parse:   parseLogLevel,
}, {
	Name: "RINGLET_LOG_FORMAT", Default: LogText,
	Range:   "text or json",
	Example: LogJSON,
	Meaning: "format of a log line; text has no time, because the engine's log adds it",
	Effect:  "from the next start",
	parse:   parseLogFormat,
}}
