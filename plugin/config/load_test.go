package config

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Two keys, for tests only.
const (
	key1 = "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE="
	key2 = "MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI="
)

// keyFiles are the files that the tests' settings may name.
var keyFiles = map[string]string{
	"/keys/two":     "# rotated in May\n\n  " + key2 + "\r\n" + key1,
	"/keys/empty":   "# nothing yet\n",
	"/keys/bad":     key1 + "\nnot base64\n" + key1 + "\nc2hvcnQ=\n",
	"/keys/newline": "",
}

func testSource() source {
	return source{
		host: func() (string, error) { return "host-a", nil },
		readFile: func(path string) ([]byte, error) {
			content, ok := keyFiles[path]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			return []byte(content), nil
		},
	}
}

func mustLoad(t *testing.T, environ ...string) Config {
	t.Helper()
	cfg, err := load(environ, testSource())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// defaults is what an empty environment means, spelled out.
func defaults() Config {
	return Config{
		Name:       "host-a",
		Bind:       netip.MustParseAddrPort("0.0.0.0:7950"),
		Cluster:    "ringlet",
		Universe:   prefixes("10.32.0.0/12"),
		DeriveULA:  true,
		Subnet:     Subnet{V4: 24, V6: 64},
		EvictAfter: 15 * time.Minute,
		Deal:       DealHalf,
		BootAlone:  true,
		Rest:       5 * time.Minute,
		Timeout:    20 * time.Second,
		MAC:        true,
		Announce:   true,
		HTTP:       HTTP{Address: HTTPOff},
		LogLevel:   slog.LevelInfo,
		LogFormat:  "text",

		IdentityLabels: []string{"com.docker.compose.project", "com.docker.compose.service", "com.docker.stack.namespace", "com.docker.swarm.service.name"},
	}
}

// comparers look into netip's types and take nil for an empty list.
func comparers() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmpopts.EquateEmpty(),
	}
}

func TestAccepted(t *testing.T) {
	decode := func(s string) []byte { b, _ := base64.StdEncoding.DecodeString(s); return b }
	tests := []struct {
		name    string
		environ []string
		want    func(*Config)
	}{
		{"nothing", nil, func(*Config) {}},
		{"others' names and the command line's", []string{"PATH=/bin", "RINGLET_SOCKET=/s", "RINGLETS=3", "ringlet_join=x", "=C:=x", "junk", ""}, func(*Config) {}},
		{"empty means default", []string{"RINGLET_TIMEOUT=", "RINGLET_UNIVERSE= ", "RINGLET_NAME=\t"}, func(*Config) {}},
		{"the last counts", []string{"RINGLET_NAME=one", "RINGLET_NAME=two"}, func(c *Config) { c.Name = "two" }},
		{"a value may contain =", []string{"RINGLET_TOKEN=a=b=c=d=e=f=g=h="}, func(c *Config) { c.HTTP.Token = "a=b=c=d=e=f=g=h=" }},

		{"name", []string{"RINGLET_NAME=größe-1.example"}, func(c *Config) { c.Name = "größe-1.example" }},
		{"bind address alone", []string{"RINGLET_BIND=192.168.1.10"}, func(c *Config) { c.Bind = netip.MustParseAddrPort("192.168.1.10:7950") }},
		{"bind IPv6", []string{"RINGLET_BIND=[::]:8000"}, func(c *Config) { c.Bind = netip.MustParseAddrPort("[::]:8000") }},
		{"bind IPv6 without port", []string{"RINGLET_BIND=fd00::1"}, func(c *Config) { c.Bind = netip.MustParseAddrPort("[fd00::1]:7950") }},
		{"bind mapped", []string{"RINGLET_BIND=[::ffff:10.0.0.1]:1"}, func(c *Config) { c.Bind = netip.MustParseAddrPort("10.0.0.1:1") }},
		{"advertise takes bind's port", []string{"RINGLET_ADVERTISE=10.0.0.1", "RINGLET_BIND=0.0.0.0:8000"}, func(c *Config) {
			c.Bind, c.Advertise = netip.MustParseAddrPort("0.0.0.0:8000"), netip.MustParseAddrPort("10.0.0.1:8000")
		}},
		{"join", []string{"RINGLET_INSECURE=true", "RINGLET_JOIN= Host-A , host-a:7950,10.0.0.7,fd00:0::2,[fd00::3],[FD00::4]:99,::ffff:10.0.0.8,a_b.example.:07"}, func(c *Config) {
			c.Insecure = true
			c.Join = []string{"host-a:7950", "10.0.0.7:7950", "[fd00::2]:7950", "[fd00::3]:7950", "[fd00::4]:99", "10.0.0.8:7950", "a_b.example.:7"}
		}},
		{"join takes bind's port", []string{"RINGLET_JOIN=b", "RINGLET_BIND=10.0.0.1:8000", "RINGLET_KEY=" + key1}, func(c *Config) {
			c.Bind, c.Join, c.Keys = netip.MustParseAddrPort("10.0.0.1:8000"), []string{"b:8000"}, [][]byte{decode(key1)}
		}},
		{"bootstrap number", []string{"RINGLET_BOOTSTRAP=3"}, func(c *Config) { c.Bootstrap.N = 3 }},
		{"bootstrap observer", []string{"RINGLET_BOOTSTRAP=Observer", "RINGLET_JOIN=b", "RINGLET_INSECURE=1"}, func(c *Config) {
			c.Bootstrap.Observer, c.Join, c.Insecure = true, []string{"b:7950"}, true
		}},
		{"cluster", []string{"RINGLET_CLUSTER=A-0123456789-zzz"}, func(c *Config) { c.Cluster = "A-0123456789-zzz" }},
		{"keys, the first encrypts", []string{"RINGLET_KEY=" + key2 + ", " + key1}, func(c *Config) { c.Keys = [][]byte{decode(key2), decode(key1)} }},
		{"key file", []string{"RINGLET_KEY_FILE=/keys/two"}, func(c *Config) {
			c.Keys, c.KeyFile = [][]byte{decode(key2), decode(key1)}, "/keys/two"
		}},
		{"universe is only what is listed", []string{"RINGLET_UNIVERSE=10.64.0.0/12"}, func(c *Config) { c.Universe, c.DeriveULA = prefixes("10.64.0.0/12"), false }},
		{"universe equal to the default is still the user's", []string{"RINGLET_UNIVERSE=10.32.0.0/12"}, func(c *Config) { c.DeriveULA = false }},
		{"universe of IPv6 alone", []string{"RINGLET_UNIVERSE=fd00:1::/48, 2001:db8:7::/64"}, func(c *Config) {
			c.Universe, c.DeriveULA = prefixes("fd00:1::/48", "2001:db8:7::/64"), false
		}},
		{"universe of one subnet", []string{"RINGLET_UNIVERSE=192.168.7.0/24"}, func(c *Config) { c.Universe, c.DeriveULA = prefixes("192.168.7.0/24"), false }},
		{"subnet of both", []string{"RINGLET_SUBNET=/28, /112"}, func(c *Config) { c.Subnet = Subnet{28, 112} }},
		{"subnet of IPv4", []string{"RINGLET_SUBNET=26"}, func(c *Config) { c.Subnet.V4 = 26 }},
		{"subnet of IPv6", []string{"RINGLET_SUBNET=80"}, func(c *Config) { c.Subnet.V6 = 80 }},
		{"avoid", []string{"RINGLET_AVOID=10.0.0.0/8,10.0.0.0/9,0.0.0.0/0,fe80::/10,10.1.1.1/32"}, func(c *Config) {
			c.Avoid = prefixes("10.0.0.0/8", "10.0.0.0/9", "0.0.0.0/0", "fe80::/10", "10.1.1.1/32")
		}},
		{"never evicted", []string{"RINGLET_EVICT_AFTER=never"}, func(c *Config) { c.EvictAfter = 0 }},
		{"quarantine", []string{"RINGLET_QUARANTINE=72h"}, func(c *Config) { c.Quarantine = 72 * time.Hour }},
		{"deal", []string{"RINGLET_DEAL=NONE"}, func(c *Config) { c.Deal = DealNone }},
		{"chunk", []string{"RINGLET_CHUNK=65536"}, func(c *Config) { c.Chunk = 65536 }},
		{"boot alone", []string{"RINGLET_BOOT_ALONE=False"}, func(c *Config) { c.BootAlone = false }},
		{"no rest", []string{"RINGLET_REST=0s"}, func(c *Config) { c.Rest = 0 }},
		{"longest timeout", []string{"RINGLET_TIMEOUT=28s"}, func(c *Config) { c.Timeout = 28 * time.Second }},
		{"no MAC", []string{"RINGLET_MAC=False"}, func(c *Config) { c.MAC = false }},
		{"no announcements", []string{"RINGLET_ANNOUNCE=False"}, func(c *Config) { c.Announce = false }},
		{"zone", []string{"RINGLET_ZONE=größe/2"}, func(c *Config) { c.Zone = "größe/2" }},
		{"labels", []string{"RINGLET_IDENTITY_LABELS=app, com.example.*,app,größe/x"}, func(c *Config) { c.IdentityLabels = []string{"app", "com.example.*", "größe/x"} }},
		{"no labels", []string{"RINGLET_IDENTITY_LABELS=None"}, func(c *Config) { c.IdentityLabels = nil }},
		{"health", []string{"RINGLET_HEALTH=10.1.0.5"}, func(c *Config) { c.Health = netip.MustParseAddrPort("10.1.0.5:7952") }},
		{"health with a port", []string{"RINGLET_HEALTH=[fd00::5]:9952"}, func(c *Config) { c.Health = netip.MustParseAddrPort("[fd00::5]:9952") }},
		{"health off", []string{"RINGLET_HEALTH=Off"}, func(*Config) {}},
		{"health beside the port elsewhere", []string{"RINGLET_HEALTH=10.1.0.5:7950", "RINGLET_BIND=10.0.0.1"}, func(c *Config) {
			c.Health, c.Bind = netip.MustParseAddrPort("10.1.0.5:7950"), netip.MustParseAddrPort("10.0.0.1:7950")
		}},
		{"http", []string{"RINGLET_HTTP=:9950"}, func(c *Config) { c.HTTP.Address = ":9950" }},
		{"http IPv6", []string{"RINGLET_HTTP=[0::1]:9950"}, func(c *Config) { c.HTTP.Address = "[::1]:9950" }},
		{"http name", []string{"RINGLET_HTTP=LocalHost:9950"}, func(c *Config) { c.HTTP.Address = "localhost:9950" }},
		{"http hosts", []string{"RINGLET_HTTP_HOSTS=Ringlet.Example.com., host-a,ringlet.example.com"}, func(c *Config) { c.HTTP.Hosts = []string{"ringlet.example.com", "host-a"} }},
		{"http with TLS", []string{"RINGLET_HTTP_CERT=/tls/cert.pem", "RINGLET_HTTP_KEY=/tls/key.pem"}, func(c *Config) { c.HTTP.Cert, c.HTTP.Key = "/tls/cert.pem", "/tls/key.pem" }},
		{"a token of 16 characters", []string{"RINGLET_TOKEN=0123456789abcdef"}, func(c *Config) { c.HTTP.Token = "0123456789abcdef" }},
		{"http off", []string{"RINGLET_HTTP=OFF"}, func(*Config) {}},
		{"http beside a peer's port elsewhere", []string{"RINGLET_HTTP=127.0.0.1:7950", "RINGLET_BIND=10.0.0.1"}, func(c *Config) {
			c.HTTP.Address, c.Bind = "127.0.0.1:7950", netip.MustParseAddrPort("10.0.0.1:7950")
		}},
		{"log", []string{"LOG_LEVEL=Warn", "RINGLET_LOG_FORMAT=JSON"}, func(c *Config) { c.LogLevel, c.LogFormat = slog.LevelWarn, "json" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := defaults()
			tt.want(&want)
			if d := cmp.Diff(want, mustLoad(t, tt.environ...), comparers()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		setting string // NAME=value, or the name that is blamed when more are needed
		environ []string
		want    string // in the reason
	}{
		{"RINGLET_NAME=-a", nil, "begins with a hyphen"},
		{"RINGLET_NAME=a b", nil, `contains ' '`},
		{"RINGLET_NAME=a/b", nil, `contains '/'`},
		{"RINGLET_NAME=a\x1b[31m", nil, `contains '\x1b'`},
		{"RINGLET_NAME=a\xff", nil, "not UTF-8"},
		{"RINGLET_NAME=" + strings.Repeat("a", 256), nil, "256 bytes"},
		{"RINGLET_BIND=:7950", nil, "must begin with an IP address"},
		{"RINGLET_BIND=eth0:7950", nil, "must begin with an IP address"},
		{"RINGLET_BIND=10.0.0.1:0", nil, "1 to 65535"},
		{"RINGLET_BIND=10.0.0.1:65536", nil, "1 to 65535"},
		{"RINGLET_BIND=10.0.0.1:http", nil, "1 to 65535"},
		{"RINGLET_BIND=fe80::1%eth0", nil, "zone"},
		{"RINGLET_BIND=224.0.0.1", nil, "not the address of one host"},
		{"RINGLET_BIND=[10.0.0.1]", nil, "not an IPv6 address"},
		{"RINGLET_ADVERTISE=0.0.0.0:7950", nil, "every address"},
		{"RINGLET_ADVERTISE=255.255.255.255", nil, "not the address of one host"},
		{"RINGLET_ADVERTISE", []string{"RINGLET_ADVERTISE=fd00::1"}, "RINGLET_BIND=0.0.0.0:7950 does not listen on IPv6"},
		{"RINGLET_JOIN=a,,b", nil, "entry 2 of the list is empty"},
		{"RINGLET_JOIN=a,", nil, "entry 2"},
		{"RINGLET_JOIN=http://a:1", nil, `"http://a:1": a URL`},
		{"RINGLET_JOIN=a:0", nil, "1 to 65535"},
		{"RINGLET_JOIN=10.0.0.256", nil, "neither an IP address nor a host name"},
		{"RINGLET_JOIN=3", nil, "neither an IP address nor a host name"},
		{"RINGLET_JOIN=host b", nil, `contains ' '`},
		{"RINGLET_JOIN=-a", nil, "hyphen is first"},
		{"RINGLET_JOIN=a..b", nil, "empty"},
		{"RINGLET_JOIN=:7950", nil, "empty"},
		{"RINGLET_JOIN=[::]:7950", nil, "every address"},
		{"RINGLET_JOIN=" + strings.Repeat("a", 64), nil, "63"},
		{"RINGLET_JOIN=" + strings.Repeat("a.", 127) + "a", nil, "253"},
		{"RINGLET_BOOTSTRAP=0", nil, "out of range"},
		{"RINGLET_BOOTSTRAP=256", nil, "out of range"},
		{"RINGLET_BOOTSTRAP=99999999999999999999", nil, "out of range"},
		{"RINGLET_BOOTSTRAP=three", nil, "not a number"},
		{"RINGLET_BOOTSTRAP", []string{"RINGLET_BOOTSTRAP=observer"}, "set RINGLET_JOIN"},
		{"RINGLET_CLUSTER=0123456789abcdefg", nil, "17 bytes"},
		{"RINGLET_CLUSTER=my lab", nil, `contains ' '`},
		{"RINGLET_CLUSTER=a_b", nil, `contains '_'`},
		{"RINGLET_CLUSTER=lab-", nil, "hyphen"},
		{"RINGLET_KEY=x", nil, "key 1 is not base64"},
		{"RINGLET_KEY=" + key1 + ",c2hvcnQ=", nil, "key 2 has 5 bytes and not 32"},
		{"RINGLET_KEY=" + key1 + "," + key1, nil, "key 2 is there twice"},
		{"RINGLET_KEY=$(ringlet keygen)", nil, "not base64"},
		{"RINGLET_KEY_FILE=/keys/none", nil, "file does not exist"},
		{"RINGLET_KEY_FILE=/keys/empty", nil, "no key in the file"},
		{"RINGLET_KEY_FILE=/keys/bad", nil, "line 2 is not base64"},
		{"RINGLET_KEY_FILE=/keys/bad", nil, "line 3 is there twice"},
		{"RINGLET_KEY_FILE=/keys/bad", nil, "line 4 has 5 bytes"},
		{"RINGLET_KEY_FILE", []string{"RINGLET_KEY_FILE=/keys/two", "RINGLET_KEY=" + key1}, "RINGLET_KEY is set too"},
		{"RINGLET_KEY", []string{"RINGLET_JOIN=b"}, "RINGLET_INSECURE=true"},
		{"RINGLET_INSECURE=yes", nil, "neither true nor false"},
		{"RINGLET_UNIVERSE=10.32.0.5/12", nil, "write 10.32.0.0/12"},
		{"RINGLET_UNIVERSE=10.0.0.0/4", nil, "more than the private subnet 10.0.0.0/8, write that"},
		{"RINGLET_UNIVERSE=192.168.0.0/8", nil, "more than the private subnet 192.168.0.0/16, write that"},
		{"RINGLET_UNIVERSE=10.32.0.0", nil, "no prefix length"},
		{"RINGLET_UNIVERSE=10.32/12", nil, `"10.32/12" is not a subnet`},
		{"RINGLET_UNIVERSE=8.0.0.0/7", nil, "wider than a /8"},
		{"RINGLET_UNIVERSE=10.0.0.0/31", nil, "narrower than a /30"},
		{"RINGLET_UNIVERSE=127.0.0.0/8", nil, "cannot use"},
		{"RINGLET_UNIVERSE=240.0.0.0/8", nil, "cannot use"},
		{"RINGLET_UNIVERSE=169.0.0.0/8", nil, "cannot use"},
		{"RINGLET_UNIVERSE=fe80::/64", nil, "cannot use"},
		{"RINGLET_UNIVERSE=ff00::/48", nil, "cannot use"},
		{"RINGLET_UNIVERSE=fd00::/40", nil, "wider than a /48"},
		{"RINGLET_UNIVERSE=fd00::/65", nil, "narrower than a /64"},
		{"RINGLET_UNIVERSE=::ffff:10.0.0.0/104", nil, "write 10.0.0.0/8"},
		{"RINGLET_UNIVERSE=::ffff:0:0/90", nil, "not a subnet of one family"},
		{"RINGLET_UNIVERSE=10.0.0.0/9,172.16.0.0/12,10.64.0.0/16", nil, "10.0.0.0/9 and 10.64.0.0/16 overlap"},
		{"RINGLET_UNIVERSE=10.64.0.0/16,10.0.0.0/9,10.127.0.0/16", nil, "10.0.0.0/9 and 10.127.0.0/16 overlap"},
		{"RINGLET_UNIVERSE=10.0.0.0/16,10.0.0.0/16", nil, "overlap"},
		{"RINGLET_UNIVERSE=10.0.0.0/26", nil, "no room for a /24"},
		{"RINGLET_UNIVERSE", []string{"RINGLET_SUBNET=8"}, "no room for a /8"},
		{"RINGLET_SUBNET=24,64,80", nil, "64 and 80 are two sizes for one family"},
		{"RINGLET_SUBNET=24,25", nil, "two sizes for one family"},
		{"RINGLET_SUBNET=7", nil, "out of range"},
		{"RINGLET_SUBNET=31", nil, "out of range"},
		{"RINGLET_SUBNET=63", nil, "out of range"},
		{"RINGLET_SUBNET=127", nil, "out of range"},
		{"RINGLET_SUBNET=255.255.255.0", nil, "not a prefix length"},
		{"RINGLET_AVOID=10.0.0.1", nil, "10.0.0.1/32"},
		{"RINGLET_AVOID=10.0.0.1/8", nil, "write 10.0.0.0/8"},
		{"RINGLET_AVOID=none", nil, "not a subnet"},
		{"RINGLET_EVICT_AFTER=15", nil, "as in 15s or 15m"},
		{"RINGLET_EVICT_AFTER=0s", nil, "too short"},
		{"RINGLET_EVICT_AFTER=9000h", nil, "too long"},
		{"RINGLET_EVICT_AFTER=soon", nil, "not a duration"},
		{"RINGLET_DEAL=most", nil, "not one of the accepted words"},
		{"RINGLET_CHUNK=0", nil, "out of range"},
		{"RINGLET_CHUNK=65537", nil, "out of range"},
		{"RINGLET_CHUNK=1k", nil, "not a number"},
		{"RINGLET_QUARANTINE=1s", nil, "too short"},
		{"RINGLET_BOOT_ALONE=2", nil, "neither true nor false"},
		{"RINGLET_REST=-1s", nil, "too short"},
		{"RINGLET_REST=25h", nil, "too long"},
		{"RINGLET_TIMEOUT=29s", nil, "too long"},
		{"RINGLET_TIMEOUT=999ms", nil, "too short"},
		{"RINGLET_TIMEOUT=never", nil, "not a duration"},
		{"RINGLET_MAC=02:42:0a:01:00:09", nil, "neither true nor false"},
		{"RINGLET_ANNOUNCE=off", nil, "neither true nor false"},
		{"RINGLET_ZONE=" + strings.Repeat("z", 300), nil, "it has 300 bytes"},
		{"RINGLET_ZONE=rack 1", nil, "contains ' '"},
		{"RINGLET_ZONE=a,b", nil, "contains ','"},
		{"RINGLET_ZONE=a\u200b", nil, `contains '\u200b'`},
		{"RINGLET_ZONE=a\xff", nil, "not UTF-8"},
		{"RINGLET_IDENTITY_LABELS=a,,b", nil, "entry 2 of the list is empty"},
		{"RINGLET_IDENTITY_LABELS=*", nil, "every label would count"},
		{"RINGLET_IDENTITY_LABELS=a*b", nil, "is its last character"},
		{"RINGLET_IDENTITY_LABELS=com.example.", nil, "as in com.example.*"},
		{"RINGLET_IDENTITY_LABELS=app,none", nil, "stands alone"},
		{"RINGLET_IDENTITY_LABELS=app=web", nil, "contains '='"},
		{"RINGLET_IDENTITY_LABELS=a b", nil, "contains ' '"},
		{"RINGLET_IDENTITY_LABELS=a\xff", nil, "not UTF-8"},
		{"RINGLET_IDENTITY_LABELS=" + strings.Repeat("a", 256), nil, "256 bytes"},
		{"RINGLET_HEALTH=on", nil, "begin with an IP address"},
		{"RINGLET_HEALTH=10.1.0.5:0", nil, "1 to 65535"},
		{"RINGLET_HEALTH=0.0.0.0", nil, "every address of this host"},
		{"RINGLET_HEALTH=127.0.0.1", nil, "no other host reaches 127.0.0.1"},
		{"RINGLET_HEALTH=169.254.1.1", nil, "no other host reaches"},
		{"RINGLET_HEALTH=fe80::1%eth0", nil, "zone"},
		{"RINGLET_HEALTH=224.0.0.1", nil, "not the address of one host"},
		{"RINGLET_HEALTH=10.1.0.0/24", nil, "begin with an IP address"},
		{"RINGLET_HEALTH=10.1.0.5:7950", nil, "RINGLET_BIND=0.0.0.0:7950 already takes the port"},
		{"RINGLET_HEALTH=10.1.0.5:7951", []string{"RINGLET_HEALTH=10.1.0.5:7951", "RINGLET_HTTP=:7951"}, "RINGLET_HTTP=:7951 already takes the port"},
		{"RINGLET_HTTP=9950", nil, ":9950"},
		{"RINGLET_HTTP=localhost", nil, "not host:port"},
		{"RINGLET_HTTP=127.0.0.1:0", nil, "1 to 65535"},
		{"RINGLET_HTTP=http://127.0.0.1:80", nil, "not host:port"},
		{"RINGLET_HTTP=on", nil, "not host:port"},
		{"RINGLET_HTTP=:7950", nil, "already takes the port"},
		{"RINGLET_HTTP=127.0.0.1:7950", nil, "already takes the port"},
		{"RINGLET_HTTP_HOSTS=a,,b", nil, "entry 2 of the list is empty"},
		{"RINGLET_HTTP_HOSTS=http://a", nil, "not the name of a host"},
		{"RINGLET_HTTP_HOSTS=*.example.com", nil, "not the name of a host"},
		{"RINGLET_HTTP_CERT=/tls/cert.pem", nil, "RINGLET_HTTP_KEY is not set"},
		{"RINGLET_HTTP_CERT=cert.pem", nil, "begin with a slash"},
		{"RINGLET_TOKEN=a b", nil, "can be guessed"},
		{"RINGLET_TOKEN=0123456789abcde", nil, "15 characters"},
		{"RINGLET_TOKEN=0123456789abcdef ghi", nil, "byte 17"},
		{"RINGLET_TOKEN=ä0123456789abcdef", nil, "byte 1"},
		{"RINGLET_TOKEN=" + strings.Repeat("x", 1025), nil, "1025 bytes"},
		{"LOG_LEVEL=trace", nil, "not one of the accepted words"},
		{"RINGLET_LOG_FORMAT=xml", nil, "not one of the accepted words"},
	}
	for _, tt := range tests {
		t.Run(tt.setting, func(t *testing.T) {
			environ := tt.environ
			if environ == nil {
				environ = []string{tt.setting}
			}
			cfg, err := load(environ, testSource())
			if err == nil {
				t.Fatalf("%q was accepted: %v", environ, cfg)
			}
			name, _, _ := strings.Cut(tt.setting, "=")
			found := false
			for _, p := range Problems(err) {
				e, ok := errors.AsType[*Error](p)
				if !ok {
					t.Fatalf("%T is not *Error: %v", p, p)
				}
				if e.Name != name {
					t.Errorf("%s was blamed, want only %s: %v", e.Name, name, e)
				}
				found = found || strings.Contains(e.Err.Error(), tt.want)
				if text := e.Error(); strings.ContainsAny(text, "\n\x1b") || !strings.Contains(text, "; accepted: ") || !strings.Contains(text, "; example: "+name+"=") {
					t.Errorf("%q is not one line with what is accepted and an example", text)
				}
			}
			if !found {
				t.Errorf("got %v, want a reason with %q", err, tt.want)
			}
		})
	}
}

func TestHostName(t *testing.T) {
	cause := errors.New("uname failed")
	src := testSource()
	src.host = func() (string, error) { return "", cause }
	if _, err := load(nil, src); !errors.Is(err, cause) {
		t.Errorf("got %v, want the reason why the host has no name", err)
	}
	if cfg, err := load([]string{"RINGLET_NAME=b"}, src); err != nil || cfg.Name != "b" {
		t.Errorf("got %q, %v; the host's name should not have been asked for", cfg.Name, err)
	}
	src.host = func() (string, error) { return "bad name", nil }
	if _, err := load(nil, src); err == nil || !strings.Contains(err.Error(), `the host's name "bad name" cannot be the default`) {
		t.Errorf("got %v", err)
	}
}

// TestNoSecretIsShown looks for pieces of secrets in all that is printed.
func TestNoSecretIsShown(t *testing.T) {
	const secret = "Sup3rS3cr3tSup3rS3cr3t"
	_, err := load([]string{
		"RINGLET_KEY=" + secret + "," + key1 + "," + key1,
		"RINGLET_KYE=" + secret,
		"RINGLET_TOKEN=" + secret + " " + secret,
	}, testSource())
	if err == nil {
		t.Fatal("bad secrets were accepted")
	}
	if s := err.Error(); strings.Contains(s, secret) || strings.Contains(s, key1[:8]) {
		t.Errorf("the error shows a secret: %s", s)
	}

	keyFiles["/keys/secret"] = secret
	t.Cleanup(func() { delete(keyFiles, "/keys/secret") })
	_, err = load([]string{"RINGLET_KEY_FILE=/keys/secret"}, testSource())
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, want an error without the key", err)
	}

	cfg := mustLoad(t, "RINGLET_KEY="+key1, "RINGLET_TOKEN="+secret)
	var shown bytes.Buffer
	slog.New(slog.NewJSONHandler(&shown, nil)).LogAttrs(t.Context(), slog.LevelInfo, "settings read", slog.Any("settings", cfg))
	slog.New(slog.NewTextHandler(&shown, nil)).LogAttrs(t.Context(), slog.LevelInfo, "settings read", slog.Any("settings", cfg))
	for _, format := range []string{"%v", "%+v", "%s", "%#v"} {
		fmt.Fprintf(&shown, format, cfg)
	}
	for _, piece := range []string{secret, key1[:8], "1111", "49, 49", "49 49", "0x31"} {
		if strings.Contains(shown.String(), piece) {
			t.Errorf("the settings show a secret: %s", shown.String())
		}
	}
}

// A key that was set in place of something else is shown nowhere, and it is said
// where it belongs.
func TestMisplacedKey(t *testing.T) {
	for _, entry := range []string{
		"RINGLET_KEY_FILE=" + key1, "RINGLET_KEY_FILE=" + key1 + ", " + key2, "RINGLET_NAME=" + key1, "RINGLET_JOIN=host-a," + key1,
		"RINGLET_CLUSTER= " + key1, "LOG_LEVEL=" + key1,
	} {
		_, err := load([]string{entry}, testSource())
		if err == nil || strings.Contains(err.Error(), key1[:8]) || !strings.Contains(err.Error(), "this is a key: set RINGLET_KEY") {
			t.Errorf("%s: got %v", entry, err)
		}
		name, _, _ := strings.Cut(entry, "=")
		if got := Hide([]string{entry}); got[0] != name+"=(hidden)" {
			t.Errorf("%s: shown as %s", entry, got)
		}
	}
	mustLoad(t, "RINGLET_KEY="+key1, "RINGLET_TOKEN="+key2)
}

// The settings of a process elsewhere are looked at where its files lie on this host.
func TestCheck(t *testing.T) {
	host := func() (string, error) { return "host-a", nil }
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, path) }
	if err := os.WriteFile(at("keys"), []byte(key1+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{
		"RINGLET_NAME=b":         "",
		"RINGLET_KEY_FILE=/keys": "",
		"RINGLET_KEY_FILE=/none": "the key file cannot be read",
		"RINGLET_TIMEOUT=1h":     "RINGLET_TIMEOUT",
		"RINGLET_KYE=x":          "did you mean RINGLET_KEY?",
	} {
		if err := Check([]string{setting}, host, at); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", setting, err, want)
		}
	}
	if os.Geteuid() == 0 {
		return // who may read everything
	}
	if err := os.Chmod(at("keys"), 0); err != nil {
		t.Fatal(err)
	}
	if err := Check([]string{"RINGLET_KEY_FILE=/keys"}, host, at); err != nil {
		t.Errorf("a file that may not be read: %v", err)
	}
}

func TestHide(t *testing.T) {
	given := []string{"RINGLET_NAME=a", "RINGLET_KEY=secret", "RINGLET_TOKEN=secret", "RINGLET_KYE=secret", "RINGLET_KEY_FILE=/keys", "RINGLET_KEY=", "RINGLET_JOIN"}
	want := []string{"RINGLET_NAME=a", "RINGLET_KEY=(hidden)", "RINGLET_TOKEN=(hidden)", "RINGLET_KYE=(hidden)", "RINGLET_KEY_FILE=/keys", "RINGLET_KEY=", "RINGLET_JOIN"}
	if diff := cmp.Diff(want, Hide(given)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if given[1] != "RINGLET_KEY=secret" {
		t.Error("the caller's own list was changed")
	}
}
