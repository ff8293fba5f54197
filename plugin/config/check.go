package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// check tests what one setting means for another. It skips what depends on a
// setting that is bad by itself: the operator mends that first.
func (c Config) check(env map[string]string, bad map[string]bool) []error {
	var problems []error
	rules := []struct {
		names []string // the settings it looks at, the first is blamed
		rule  func() error
	}{
		{[]string{"RINGLET_ADVERTISE", "RINGLET_BIND"}, c.checkAdvertise},
		{[]string{"RINGLET_BOOTSTRAP", "RINGLET_JOIN"}, c.checkObserver},
		{[]string{"RINGLET_KEY_FILE", "RINGLET_KEY"}, func() error { return checkOneKeySource(env) }},
		{[]string{"RINGLET_KEY", "RINGLET_KEY_FILE", "RINGLET_JOIN", "RINGLET_INSECURE"}, c.checkEncryption},
		{[]string{"RINGLET_UNIVERSE", "RINGLET_SUBNET"}, c.checkSizes},
		{[]string{"RINGLET_HTTP", "RINGLET_BIND"}, c.checkPorts},
		{[]string{"RINGLET_HEALTH", "RINGLET_BIND", "RINGLET_HTTP"}, c.checkHealthPort},
		{[]string{"RINGLET_HTTP_CERT", "RINGLET_HTTP_KEY"}, c.checkTLS},
		{[]string{"RINGLET_ETCD_CERT", "RINGLET_ETCD_KEY"}, c.checkETCDPair},
		{[]string{"RINGLET_ETCD_USER", "RINGLET_ETCD_PASSWORD_FILE"}, c.checkETCDUser},
		{[]string{"RINGLET_ETCD", "RINGLET_ETCD_CA", "RINGLET_ETCD_CERT", "RINGLET_ETCD_USER"}, c.checkETCD},
	}
	for _, r := range rules {
		if slices.ContainsFunc(r.names, func(name string) bool { return bad[name] }) {
			continue
		}
		if err := r.rule(); err != nil {
			problems = append(problems, setting(r.names[0]).problem(env[r.names[0]], err))
		}
	}
	return problems
}

func (c Config) checkAdvertise() error {
	if c.Advertise.IsValid() && c.Bind.Addr().Is4() && c.Advertise.Addr().Is6() {
		return fmt.Errorf("RINGLET_BIND=%v does not listen on IPv6, [::]:%d does on both", c.Bind, c.Bind.Port())
	}
	return nil
}

func (c Config) checkObserver() error {
	if c.Bootstrap.Observer && len(c.Join) == 0 {
		return errors.New("an observer founds no cluster: set RINGLET_JOIN to the hosts that do")
	}
	return nil
}

func checkOneKeySource(env map[string]string) error {
	if env["RINGLET_KEY"] != "" && env["RINGLET_KEY_FILE"] != "" {
		return errors.New("RINGLET_KEY is set too: unset one of them")
	}
	return nil
}

func (c Config) checkEncryption() error {
	if len(c.Join) > 0 && len(c.Keys) == 0 && !c.Insecure {
		return errors.New("RINGLET_JOIN is set without a key, so any machine that reaches the port could take part:" +
			" set the key of the cluster here or in RINGLET_KEY_FILE, or set RINGLET_INSECURE=true to go without encryption")
	}
	return nil
}

func (c Config) checkSizes() error {
	var problems []error
	for _, p := range c.Universe {
		size := c.Subnet.V6
		if p.Addr().Is4() {
			size = c.Subnet.V4
		}
		if p.Bits() > size {
			problems = append(problems, fmt.Errorf("%v has no room for a /%d, which RINGLET_SUBNET asks for", p, size))
		}
	}
	return errors.Join(problems...)
}

func (c Config) checkPorts() error {
	if c.HTTP.Address == HTTPOff {
		return nil
	}
	host, port, err := splitHostPort(c.HTTP.Address, 0)
	if err != nil || port != c.Bind.Port() {
		return err
	}
	a, err := netip.ParseAddr(host)
	if err != nil && host != "" {
		return nil // a name: which address it is shows when the port is opened
	}
	if host == "" || a.IsUnspecified() || c.Bind.Addr().IsUnspecified() || a == c.Bind.Addr() {
		return fmt.Errorf("RINGLET_BIND=%v already takes the port", c.Bind)
	}
	return nil
}

func (c Config) checkHealthPort() error {
	if !c.Health.IsValid() {
		return nil
	}
	if covers(c.Bind.Addr(), c.Health.Addr()) && c.Bind.Port() == c.Health.Port() {
		return fmt.Errorf("RINGLET_BIND=%v already takes the port", c.Bind)
	}
	if c.HTTP.Address == HTTPOff {
		return nil
	}
	host, port, err := splitHostPort(c.HTTP.Address, 0)
	if err != nil || port != c.Health.Port() {
		return err
	}
	a, err := netip.ParseAddr(host)
	if host == "" || err == nil && covers(a, c.Health.Addr()) {
		return fmt.Errorf("RINGLET_HTTP=%s already takes the port", c.HTTP.Address)
	}
	return nil
}

// covers reports whether who listens at an address listens at another one, too.
func covers(a, other netip.Addr) bool { return a == other || a.IsUnspecified() }

func (c Config) checkTLS() error {
	switch {
	case c.HTTP.Cert != "" && c.HTTP.Key == "":
		return errors.New("RINGLET_HTTP_KEY is not set: a certificate is of no use without its private key")
	case c.HTTP.Cert == "" && c.HTTP.Key != "":
		return errors.New("RINGLET_HTTP_KEY is set and this is not: a private key is of no use without its certificate")
	}
	return nil
}
