package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// environOf writes a Config as an environment, the opposite of Load.
func environOf(c Config) []string {
	value := map[string]string{}
	for _, a := range c.LogValue().Group() {
		value[a.Key] = a.Value.String()
	}
	value["token"] = c.HTTP.Token
	value["key"] = ""
	if c.KeyFile == "" {
		var keys []string
		for _, k := range c.Keys {
			keys = append(keys, base64.StdEncoding.EncodeToString(k))
		}
		value["key"] = strings.Join(keys, ",")
	}
	if !c.Advertise.IsValid() {
		value["advertise"] = ""
	}
	if c.DeriveULA {
		value["universe"] = ""
	}
	var environ []string
	for _, name := range names() {
		environ = append(environ, name+"="+value[strings.ToLower(strings.TrimPrefix(name, prefix))])
	}
	return environ
}

// FuzzLoad feeds environments, one entry per line. Whatever comes, Load
// answers with settings that keep their promises and mean the same when they
// are written down and read again, or with errors of one line each.
func FuzzLoad(f *testing.F) {
	f.Add("")
	f.Add("RINGLET_JION=x\nRINGLET_=\nLOG_LEVEL=\xff")
	for _, s := range Settings() {
		f.Add(s.Name + "=" + s.Default)
		f.Add(s.Name + "=" + s.Example + "\nRINGLET_INSECURE=true")
	}
	f.Add("RINGLET_KEY=" + key1 + "," + key2 + "\nRINGLET_JOIN=::1,[::1]:1,A.b.,10.0.0.1")
	f.Add("RINGLET_KEY_FILE=/keys/two\nRINGLET_BOOTSTRAP=observer\nRINGLET_JOIN=a")
	f.Add("RINGLET_UNIVERSE=10.0.0.0/9,fd00::/48,10.128.0.0/9\nRINGLET_SUBNET=30,126\nRINGLET_AVOID=::/0,0.0.0.0/0")
	f.Add("RINGLET_HTTP=[::1]:7950\nRINGLET_BIND=::\nRINGLET_ADVERTISE=::2")

	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := load(strings.Split(text, "\n"), testSource())
		if err != nil {
			for _, p := range Problems(err) {
				if _, ok := errors.AsType[*Error](p); !ok {
					t.Errorf("%T is not *Error: %v", p, p)
				}
				if s := p.Error(); strings.ContainsAny(s, "\n\r\x1b\x00") || !utf8.ValidString(s) {
					t.Errorf("%q is not one line of text", s)
				}
			}
			return
		}
		if err := promised(cfg); err != nil {
			t.Errorf("%v: %v", cfg, err)
		}
		again, err := load(environOf(cfg), testSource())
		if err != nil {
			t.Fatalf("%q, written by us, is refused: %v", environOf(cfg), err)
		}
		if d := cmp.Diff(cfg, again, comparers()); d != "" {
			t.Errorf("written down and read again (-before +after):\n%s", d)
		}
	})
}

// promised checks what the fields of Config promise to other packages.
func promised(c Config) error {
	var problems []error
	want := func(ok bool, what string) {
		if !ok {
			problems = append(problems, errors.New(what))
		}
	}
	want(c.Name != "" && len(c.Name) <= 255 && utf8.ValidString(c.Name), "name")
	want(c.Bind.IsValid() && c.Bind.Port() != 0, "bind")
	want(!c.Advertise.IsValid() || c.Advertise.Port() != 0 && !c.Advertise.Addr().IsUnspecified(), "advertise")
	for _, j := range c.Join {
		host, port, err := splitHostPort(j, 0)
		want(err == nil && host != "" && port != 0, fmt.Sprintf("join %q", j))
	}
	want(len(c.Join) == 0 || len(c.Keys) > 0 || c.Insecure, "peers without a key")
	want(c.Bootstrap.N >= 0 && c.Bootstrap.N <= 255 && (c.Bootstrap.N == 0 || !c.Bootstrap.Observer), "bootstrap")
	want(c.Cluster != "" && len(c.Cluster) <= 16, "cluster")
	for _, k := range c.Keys {
		want(len(k) == KeySize, "key size")
	}
	want(c.KeyFile == "" || len(c.Keys) > 0, "key file")
	want(len(c.Universe) > 0, "universe")
	for i, p := range c.Universe {
		size := c.Subnet.V6
		if p.Addr().Is4() {
			size = c.Subnet.V4
		}
		want(p == p.Masked() && p.Bits() <= size, fmt.Sprintf("universe %v", p))
		for _, q := range c.Universe[i+1:] {
			want(!p.Overlaps(q), fmt.Sprintf("%v overlaps %v", p, q))
		}
	}
	want(c.Subnet.V4 >= 8 && c.Subnet.V4 <= 30 && c.Subnet.V6 >= 64 && c.Subnet.V6 <= 126, "subnet")
	for _, p := range c.Avoid {
		want(p.IsValid() && p == p.Masked(), fmt.Sprintf("avoid %v", p))
	}
	want(c.EvictAfter == 0 || c.EvictAfter >= 10*time.Second, "evict after")
	want(c.Deal == DealHalf || c.Deal == DealAll || c.Deal == DealNone, "deal")
	want(c.Chunk >= 0 && c.Chunk <= 65536, "chunk")
	want(c.Quarantine == 0 || c.Quarantine >= time.Minute, "quarantine")
	want(c.Rest >= 0 && c.Rest <= 24*time.Hour, "rest")
	want(c.Timeout >= time.Second && c.Timeout <= 28*time.Second, "timeout")
	if c.HTTP.Address != HTTPOff {
		host, port, err := splitHostPort(c.HTTP.Address, 0)
		_, addrErr := netip.ParseAddr(host)
		want(err == nil && port != 0 && (host == "" || addrErr == nil || strings.ToLower(host) == host), "http")
	}
	want(c.LogFormat == LogText || c.LogFormat == LogJSON, "log format")
	return errors.Join(problems...)
}
