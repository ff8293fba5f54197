package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func parseETCD(cfg *Config, value string, _ source) error {
	err := entries(value, func(_ int, entry string) error {
		u, err := url.Parse(entry)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return fmt.Errorf("%s is not a URL such as http://host:2379", shown(entry))
		case u.User != nil:
			return errors.New("a URL has a user in it: use RINGLET_ETCD_USER and RINGLET_ETCD_PASSWORD_FILE")
		case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
			return fmt.Errorf("%s has something behind the port", shown(entry))
		}
		host, port, err := splitHostPort(u.Host, defaultETCDPort)
		if err != nil {
			return err
		}
		endpoint := u.Scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
		if !slices.Contains(cfg.ETCD.URLs, endpoint) {
			cfg.ETCD.URLs = append(cfg.ETCD.URLs, endpoint)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range cfg.ETCD.URLs {
		if cfg.etcdTLS() != strings.HasPrefix(e, "https:") {
			return errors.New("some URLs are http and some https")
		}
	}
	return nil
}

// defaultETCDPort is the port of etcd where none is named.
const defaultETCDPort = 2379

// etcdTLS reports whether etcd is reached over TLS.
func (c Config) etcdTLS() bool {
	return len(c.ETCD.URLs) > 0 && strings.HasPrefix(c.ETCD.URLs[0], "https:")
}

func parseETCDCA(cfg *Config, value string, _ source) error {
	cfg.ETCD.CA = value
	return checkPath(value)
}

func parseETCDCert(cfg *Config, value string, _ source) error {
	cfg.ETCD.Cert = value
	return checkPath(value)
}

func parseETCDKey(cfg *Config, value string, _ source) error {
	cfg.ETCD.Key = value
	return checkPath(value)
}

func parseETCDUser(cfg *Config, value string, _ source) error {
	if len(value) > 255 {
		return fmt.Errorf("it has %d bytes", len(value))
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return fmt.Errorf("byte %d of it is a space or no visible ASCII", i+1)
		}
	}
	cfg.ETCD.User = value
	return nil
}

func parseETCDPassword(cfg *Config, value string, _ source) error {
	cfg.ETCD.PasswordFile = value
	return checkPath(value)
}

func (c Config) checkETCDPair() error {
	if (c.ETCD.Cert == "") != (c.ETCD.Key == "") {
		return errors.New("RINGLET_ETCD_CERT and RINGLET_ETCD_KEY are of use only together: set both, or none")
	}
	return nil
}

func (c Config) checkETCDUser() error {
	if (c.ETCD.User == "") != (c.ETCD.PasswordFile == "") {
		return errors.New("RINGLET_ETCD_USER and RINGLET_ETCD_PASSWORD_FILE are of use only together: set both, or none")
	}
	return nil
}

func (c Config) checkETCD() error {
	switch {
	case len(c.ETCD.URLs) == 0 && (c.ETCD.CA != "" || c.ETCD.Cert != "" || c.ETCD.User != ""):
		return errors.New("it is not set, and other settings of etcd are: set it, or unset them")
	case len(c.ETCD.URLs) > 0 && !c.etcdTLS() && (c.ETCD.CA != "" || c.ETCD.Cert != ""):
		return errors.New("certificates are set, and the URLs are http: write https")
	}
	return nil
}
