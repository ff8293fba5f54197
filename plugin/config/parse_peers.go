package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func parseBind(cfg *Config, value string, _ source) error {
	ap, err := addrPort(value, DefaultPort)
	if err != nil {
		return err
	}
	cfg.Bind = ap
	return nil
}

func parseAdvertise(cfg *Config, value string, _ source) error {
	if value == "" {
		return nil
	}
	ap, err := addrPort(value, cfg.port())
	if err != nil {
		return err
	}
	if ap.Addr().IsUnspecified() {
		return fmt.Errorf("%v means every address of this host, so no other host can reach it", ap.Addr())
	}
	cfg.Advertise = ap
	return nil
}

func parseJoin(cfg *Config, value string, _ source) error {
	cfg.Join = nil
	return entries(value, func(_ int, entry string) error {
		target, err := hostPort(entry, cfg.port())
		if err == nil && !slices.Contains(cfg.Join, target) {
			cfg.Join = append(cfg.Join, target)
		}
		return err
	})
}

func parseHTTP(cfg *Config, value string, _ source) error {
	if strings.EqualFold(value, HTTPOff) {
		cfg.HTTP.Address = HTTPOff
		return nil
	}
	if isNumber(value) {
		return fmt.Errorf("a port alone is written with a colon, as in :%s", value)
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return errors.New("not host:port")
	}
	p, err := parsePort(port)
	if err != nil {
		return err
	}
	if host != "" {
		if host, err = checkHost(host); err != nil {
			return err
		}
	}
	cfg.HTTP.Address = net.JoinHostPort(host, strconv.Itoa(int(p)))
	return nil
}

// parseHealth takes an address that other hosts reach, and that is this host's alone.
func parseHealth(cfg *Config, value string, _ source) error {
	if strings.EqualFold(value, HealthOff) {
		cfg.Health = netip.AddrPort{}
		return nil
	}
	ap, err := addrPort(value, HealthPort)
	switch a := ap.Addr(); {
	case err != nil:
		return err
	case a.IsUnspecified():
		return fmt.Errorf("%v means every address of this host: name the one on the network of the containers", a)
	case !a.IsGlobalUnicast():
		return fmt.Errorf("no other host reaches %v", a)
	}
	cfg.Health = ap
	return nil
}

// port is that of other peers where none is named: a cluster that moves its
// port moves it everywhere.
func (c Config) port() uint16 {
	if p := c.Bind.Port(); p != 0 {
		return p
	}
	return DefaultPort
}

// addrPort reads address[:port].
func addrPort(value string, port uint16) (netip.AddrPort, error) {
	host, p, err := splitHostPort(value, port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, errors.New("it must begin with an IP address")
	}
	a, err = checkAddr(a)
	return netip.AddrPortFrom(a, p), err
}

// hostPort reads host[:port] and writes it in the one form that compares:
// lower case, with port, an IPv6 address short and in brackets.
func hostPort(value string, port uint16) (string, error) {
	host, p, err := splitHostPort(value, port)
	if err != nil {
		return "", fmt.Errorf("%s: %w", shown(value), err)
	}
	if host, err = checkHost(host); err != nil {
		return "", fmt.Errorf("%s: %w", shown(value), err)
	}
	if a, err := netip.ParseAddr(host); err == nil && a.IsUnspecified() {
		return "", fmt.Errorf("%s: it stands for every address of a host, and names none", shown(value))
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p))), nil
}

// splitHostPort takes host:port, [v6]:port, and each without a port, also an
// IPv6 address without brackets.
func splitHostPort(value string, port uint16) (string, uint16, error) {
	if a, err := netip.ParseAddr(value); err == nil {
		return a.String(), port, nil
	}
	if bare, ok := strings.CutPrefix(value, "["); ok && strings.HasSuffix(bare, "]") {
		bare = strings.TrimSuffix(bare, "]")
		if a, err := netip.ParseAddr(bare); err != nil || !a.Is6() {
			return "", 0, errors.New("what is in brackets is not an IPv6 address")
		}
		return bare, port, nil
	}
	if strings.Contains(value, "://") {
		return "", 0, errors.New("a URL, of which only the host and the port belong here")
	}
	if !strings.Contains(value, ":") {
		return value, port, nil
	}
	host, p, err := net.SplitHostPort(value)
	if err != nil {
		return "", 0, errors.New("it has more than one colon and is not an IPv6 address")
	}
	if port, err = parsePort(p); err != nil {
		return "", 0, err
	}
	return host, port, nil
}

// parsePort takes no 0: others must know the port beforehand.
func parsePort(s string) (uint16, error) {
	p, err := strconv.ParseUint(s, 10, 16)
	if err != nil || p == 0 {
		return 0, fmt.Errorf("the port %s is not a number from 1 to 65535", shown(s))
	}
	return uint16(p), nil
}

// checkHost returns an address in its short form, or a name in lower case.
func checkHost(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		a, err = checkAddr(a)
		return a.String(), err
	}
	host = strings.ToLower(host)
	// RFC 1035, section 2.3.4, in the text form without the length bytes. A
	// last dot keeps a resolver from trying its search list.
	const maxName, maxLabel = 253, 63
	name := strings.TrimSuffix(host, ".")
	if len(name) > maxName {
		return "", fmt.Errorf("a host name has at most %d bytes", maxName)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > maxLabel {
			return "", fmt.Errorf("a part of a host name has at most %d bytes", maxLabel)
		}
		if err := checkLabel(label, "_"); err != nil {
			return "", fmt.Errorf("not a host name: %w", err)
		}
		last = label
	}
	if isNumber(last) {
		return "", errors.New("neither an IP address nor a host name")
	}
	return host, nil
}

// checkAddr returns the address without an IPv4-in-IPv6 wrapping.
func checkAddr(a netip.Addr) (netip.Addr, error) {
	a = a.Unmap()
	switch {
	case a.Zone() != "":
		return netip.Addr{}, errors.New("an address with a zone is reachable on one link only")
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.Addr{}, errors.New("not the address of one host")
	}
	return a, nil
}
