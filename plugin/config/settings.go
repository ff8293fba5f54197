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

func (s Setting) problem(given string, err error) error {
	if s.Secret || hasKey(given) {
		given = ""
	}
	return &Error{Name: s.Name, Value: given, Accepted: s.Range, Example: s.Example, Err: err}
}

// misplaced returns why a value is none of this setting if there is a key in it:
// somebody took the setting for another. It would be shown and logged, as a name
// even told to all.
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

// table is the one source of all settings. RINGLET_BIND stands before what
// takes its port from it.
func table() []Setting {
	return slices.Concat(peers(), space(), cluster(), serving())
}

// peers are the settings about who this peer is and whom it talks to.
func peers() []Setting {
	return []Setting{{
		Name: "RINGLET_NAME", Auto: "the host's name",
		Range:   "1 to 255 bytes of printable text without spaces, commas and slashes, not beginning with a hyphen",
		Example: "host-a",
		Meaning: "what people call this peer",
		Effect:  "the peer is shown under the new name from its next start; no address moves",
		parse:   parseName,
	}, {
		Name: "RINGLET_BIND", Default: fmt.Sprintf("0.0.0.0:%d", DefaultPort),
		Range:   "address[:port], the port 1 to 65535 and 7950 if left out",
		Example: "192.168.1.10:7950",
		Meaning: "address and port on which other peers reach this one, UDP and TCP",
		Effect:  "others find the peer at the new address after its next start",
		parse:   parseBind,
	}, {
		Name: "RINGLET_ADVERTISE", Auto: "the host's address on the way to the hosts in RINGLET_JOIN, else a private one, that of its default route first",
		Range:   "address[:port], an address that other hosts can reach, the port that of RINGLET_BIND if left out",
		Example: "192.168.1.10:7950",
		Meaning: "address and port that others are told to reach this peer at",
		Effect:  "others find the peer at the new address after its next start",
		parse:   parseAdvertise,
	}, {
		Name: "RINGLET_JOIN", Auto: "none: this peer is the first of its cluster",
		Range:   "a comma list of host[:port], names or addresses, the port that of RINGLET_BIND if left out",
		Example: "host-a,192.168.1.11,[fd00::12]:7950",
		Meaning: "hosts to find the cluster by, or to found it with: the same list on all, itself in it; empty on the first host",
		Effect:  "none once the peer is a member: it remembers the others",
		parse:   parseJoin,
	}, {
		Name: "RINGLET_BOOTSTRAP", Auto: "the number of hosts in RINGLET_JOIN",
		Range:   "empty, a number of peers from 1 to 255, or observer",
		Example: "3",
		Meaning: "how many peers found the cluster together, or observer to have no vote in that",
		Effect:  "none once the cluster is founded",
		parse:   parseBootstrap,
	}, {
		Name: "RINGLET_CLUSTER", Default: "ringlet",
		Range:   "1 to 16 letters, digits and hyphens, a hyphen neither first nor last",
		Example: "lab-2",
		Meaning: "label of the cluster, peers with another one are not talked to",
		Effect:  "the peer no longer reaches its cluster: set it before the first start and never again",
		parse:   parseCluster,
	}, {
		Name: "RINGLET_KEY", Auto: "none", Secret: true,
		Range:   "a comma list of keys, each 32 bytes in base64, as `ringlet keygen` prints",
		Example: "$(ringlet keygen)", // a real key would be copied, and then known to all
		Meaning: "keys of the cluster, the first encrypts and all decrypt",
		Effect:  "peers without a common key part: add the new key second everywhere, then put it first everywhere, then drop the old",
		parse:   parseKeys,
	}, {
		Name: "RINGLET_KEY_FILE", Auto: "none",
		Range:   "the path of a file with one key per line, lines that begin with # are comments",
		Example: "/data/keys",
		Meaning: "file with the keys of the cluster, in place of RINGLET_KEY",
		Effect:  "as for RINGLET_KEY",
		parse:   parseKeyFile,
	}, {
		Name: "RINGLET_INSECURE", Default: "false",
		Range:   "true or false",
		Example: "true",
		Meaning: "true lets a peer join others without a key, everything is then sent in the clear",
		Effect:  "none on others: each peer decides for itself at its start",
		parse:   parseInsecure,
	}}
}

// space are the settings about which subnets are chosen.
func space() []Setting {
	return []Setting{{
		Name: "RINGLET_UNIVERSE", Default: "10.32.0.0/12", Auto: "and an IPv6 /48 derived from the cluster's ID",
		Range:   "a comma list of subnets without overlap, IPv4 from /8 to /30, IPv6 from /48 to /64, none smaller than RINGLET_SUBNET",
		Example: "10.64.0.0/12,fd12:3456:789a::/48",
		Meaning: "where subnets are chosen when the user names none",
		Effect:  "later choices only, existing pools stay; set it alike on all peers",
		parse:   parseUniverse,
	}, {
		Name: "RINGLET_SUBNET", Default: fmt.Sprintf("%d,%d", defaultV4, defaultV6),
		Range:   "an IPv4 prefix length from 8 to 30, an IPv6 one from 64 to 126, or both",
		Example: "26,64",
		Meaning: "size of the subnets that are chosen, as prefix lengths for IPv4 and IPv6",
		Effect:  "later choices only, existing pools stay; set it alike on all peers",
		parse:   parseSubnet,
	}, {
		Name: "RINGLET_AVOID", Auto: "none",
		Range:   "a comma list of subnets",
		Example: "10.40.0.0/16,192.168.1.0/24",
		Meaning: "subnets that are never chosen, beside those that the host has routes to",
		Effect:  "later choices only, existing pools stay; set it alike on all peers",
		parse:   parseAvoid,
	}}
}

// cluster are the settings about how space is shared out and comes back.
func cluster() []Setting {
	return []Setting{{
		Name: "RINGLET_EVICT_AFTER", Default: "15m",
		Range:   "a duration from 10s to 8760h, or never",
		Example: "1h",
		Meaning: "silence after which a peer is taken out of the cluster's votes, it keeps its addresses",
		Effect:  "from the next start, for what this peer proposes; set it alike on all peers",
		parse:   parseEvictAfter,
	}, {
		Name: "RINGLET_DEAL", Default: string(DealHalf),
		Range:   "half, all or none",
		Example: string(DealAll),
		Meaning: "how much of a new pool is dealt out to the peers at once",
		Effect:  "for pools that this peer makes later, existing pools stay",
		parse:   parseDeal,
	}, {
		Name: "RINGLET_CHUNK", Default: "auto",
		Range:   "auto, or a number of addresses from 1 to 65536",
		Example: "256",
		Meaning: "how many addresses a peer takes at once when it needs more, auto goes by the sizes of pool and cluster",
		Effect:  "for what this peer takes later; it gives nothing back at once",
		parse:   parseChunk,
	}, {
		Name: "RINGLET_QUARANTINE", Default: "never",
		Range:   "a duration from 1m to 8760h, or never",
		Example: "72h",
		Meaning: "time after which the addresses of an evicted peer may be handed out by others, never leaves that to an operator",
		Effect:  "counts from each eviction; a host that is only cut off for longer than this causes duplicate addresses",
		parse:   parseQuarantine,
	}, {
		Name: "RINGLET_BOOT_ALONE", Default: "true",
		Range:   "true or false",
		Example: "false",
		Meaning: "false keeps a peer from handing out addresses after a boot of its host until a majority has answered",
		Effect:  "at the next boot of the host",
		parse:   parseBootAlone,
	}, {
		Name: "RINGLET_REST", Default: "5m",
		Range:   "a duration from 0s to 24h",
		Example: "1m",
		Meaning: "how long a freed address rests before another container may get it",
		Effect:  "for addresses that are freed later",
		parse:   parseRest,
	}}
}

// serving are the settings about requests, the API and the log.
func serving() []Setting {
	return []Setting{{
		Name: "RINGLET_TIMEOUT", Default: "20s",
		Range:   "a duration from 1s to 28s, since the engine gives up after 30s",
		Example: "10s",
		Meaning: "how long a request may wait for other peers before it fails with the reason",
		Effect:  "for requests after the next start",
		parse:   parseTimeout,
	}, {
		Name: "RINGLET_MAC", Default: "true",
		Range:   "true or false",
		Example: "false",
		Meaning: "false on hosts with networks of driver ipvlan, where no container starts that the engine gives a MAC",
		Effect:  "from the next start",
		parse:   parseMAC,
	}, {
		Name: "RINGLET_ANNOUNCE", Default: "true",
		Range:   "true or false",
		Example: "false",
		Meaning: "false keeps ringlet from telling the neighbours of a container that starts which MAC its address has now",
		Effect:  "from the next start",
		parse:   parseAnnounce,
	}, {
		Name: "RINGLET_HTTP", Default: HTTPOff,
		Range:   "off, or host:port, the host may be left out",
		Example: "127.0.0.1:7951",
		Meaning: "where metrics and the API are served over TCP, read-only without RINGLET_TOKEN",
		Effect:  "from the next start",
		parse:   parseHTTP,
	}, {
		Name: "RINGLET_HTTP_HOSTS", Auto: "none beside RINGLET_NAME, the host's name, localhost and any IP address",
		Range:   "a comma list of host names",
		Example: "ringlet.example.com,host-a.example.com",
		Meaning: "further names by which clients may ask RINGLET_HTTP, so that a page of another site cannot have a browser do it",
		Effect:  "from the next start",
		parse:   parseHTTPHosts,
	}, {
		Name: "RINGLET_HTTP_CERT", Auto: "none: no TLS",
		Range:   "the path of a file in PEM with the certificate, then those of its issuers; RINGLET_HTTP_KEY is set too",
		Example: "/data/tls/cert.pem",
		Meaning: "file with the certificate of RINGLET_HTTP, which then speaks TLS alone",
		Effect:  "from the next start; files that are replaced are read within 10 seconds",
		parse:   parseHTTPCert,
	}, {
		Name: "RINGLET_HTTP_KEY", Auto: "none: no TLS",
		Range:   "the path of a file in PEM with the private key; RINGLET_HTTP_CERT is set too",
		Example: "/data/tls/key.pem",
		Meaning: "file with the private key of the certificate of RINGLET_HTTP",
		Effect:  "as for RINGLET_HTTP_CERT",
		parse:   parseHTTPKey,
	}, {
		Name: "RINGLET_TOKEN", Auto: "none: no writes over TCP", Secret: true,
		Range:   "16 to 1024 visible ASCII characters",
		Example: "a-long-random-text",
		Meaning: "what a write over TCP must show",
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
		Meaning: "how a log line is written, text leaves the time to the engine's log",
		Effect:  "from the next start",
		parse:   parseLogFormat,
	}}
}
