package config

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// LogValue implements [slog.LogValuer]: every setting under its name in lower
// case and without RINGLET_, as a user would write it. Of secrets it shows
// whether or how many there are.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", c.Name),
		slog.String("zone", c.Zone),
		slog.String("bind", c.Bind.String()),
		slog.String("advertise", showAdvertise(c)),
		slog.String("join", strings.Join(c.Join, ",")),
		slog.String("bootstrap", showBootstrap(c.Bootstrap)),
		slog.String("cluster", c.Cluster),
		slog.Int("key", len(c.Keys)),
		slog.String("key_file", c.KeyFile),
		slog.Bool("insecure", c.Insecure),
		slog.String("universe", showUniverse(c)),
		slog.String("subnet", fmt.Sprintf("%d,%d", c.Subnet.V4, c.Subnet.V6)),
		slog.String("avoid", showList(c.Avoid)),
		slog.String("evict_after", showNever(c.EvictAfter)),
		slog.String("deal", string(c.Deal)),
		slog.String("chunk", showChunk(c.Chunk)),
		slog.String("quarantine", showNever(c.Quarantine)),
		slog.Bool("boot_alone", c.BootAlone),
		slog.String("rest", c.Rest.String()),
		slog.String("timeout", c.Timeout.String()),
		slog.Bool("mac", c.MAC),
		slog.Bool("announce", c.Announce),
		slog.String("default_pool", c.DefaultPool),
		slog.String("health", showHealth(c)),
		slog.String("http", c.HTTP.Address),
		slog.String("http_hosts", strings.Join(c.HTTP.Hosts, ",")),
		slog.String("http_cert", c.HTTP.Cert),
		slog.String("http_key", c.HTTP.Key),
		slog.Bool("token", c.HTTP.Token != ""),
		slog.String("log_level", strings.ToLower(c.LogLevel.String())),
		slog.String("log_format", c.LogFormat),
		slog.String("identity_labels", showLabels(c.IdentityLabels)),
		slog.String("etcd", strings.Join(c.ETCD.URLs, ",")),
		slog.String("etcd_ca", c.ETCD.CA),
		slog.String("etcd_cert", c.ETCD.Cert),
		slog.String("etcd_key", c.ETCD.Key),
		slog.String("etcd_user", c.ETCD.User),
		slog.String("etcd_password_file", c.ETCD.PasswordFile),
	)
}

// String returns the settings on one line, without secrets.
func (c Config) String() string { return c.LogValue().String() }

// GoString keeps secrets out of %#v.
func (c Config) GoString() string { return "config.Config{" + c.String() + "}" }

func showAdvertise(c Config) string {
	if !c.Advertise.IsValid() {
		return "auto"
	}
	return c.Advertise.String()
}

func showHealth(c Config) string {
	if !c.Health.IsValid() {
		return HealthOff
	}
	return c.Health.String()
}

func showBootstrap(b Bootstrap) string {
	switch {
	case b.Observer:
		return "observer"
	case b.N > 0:
		return strconv.Itoa(b.N)
	default:
		return ""
	}
}

func showUniverse(c Config) string {
	if c.DeriveULA {
		return showList(c.Universe) + ",derived"
	}
	return showList(c.Universe)
}

func showChunk(n int) string {
	if n == 0 {
		return "auto"
	}
	return strconv.Itoa(n)
}

func showNever(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return d.String()
}

func showLabels(names []string) string {
	if len(names) == 0 {
		return IdentityNone
	}
	return strings.Join(names, ",")
}

func showList[T fmt.Stringer](list []T) string {
	var parts []string
	for _, v := range list {
		parts = append(parts, v.String())
	}
	return strings.Join(parts, ",")
}

// WriteReference writes [Settings] as a table in Markdown, for the manual.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| setting | default | accepted | meaning | effect of a change |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range Settings() {
		def := s.Auto
		if s.Default != "" {
			def = strings.TrimSpace("`" + s.Default + "` " + s.Auto)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s; as in `%s` | %s | %s |\n", s.Name, def, s.Range, s.Example, s.Meaning, s.Effect)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
