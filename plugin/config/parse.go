package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Each parser sets the field of its setting. It gets the default where the
// user gave nothing, which is "" for settings without one. Its error says only
// why: the setting, the value and what is accepted are added by Load.

func parseName(cfg *Config, value string, src source) error {
	if value != "" {
		cfg.Name = value
		return checkName(value)
	}
	name, err := src.host()
	if err != nil {
		return fmt.Errorf("the host's name, which is the default, could not be read: %w", err)
	}
	if err := checkName(name); err != nil {
		return fmt.Errorf("the host's name %s cannot be the default: %w", shown(name), err)
	}
	cfg.Name = name
	return nil
}

// parseZone keeps zones fit for tables and lists.
func parseZone(cfg *Config, value string, _ source) error {
	cfg.Zone = value
	if err := peer.Zone(value).Check(); err != nil {
		return err
	}
	for _, r := range value {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("it contains %q", r)
		}
	}
	return nil
}

// checkName keeps names fit for tables, comma lists, paths of the API and
// arguments of the command line.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case len(name) > peer.MaxName:
		return fmt.Errorf("it has %d bytes", len(name))
	case !utf8.ValidString(name):
		return errors.New("it is not UTF-8")
	case strings.HasPrefix(name, "-"):
		return errors.New("it begins with a hyphen, like an option")
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || strings.ContainsRune(" ,/", r) {
			return fmt.Errorf("it contains %q", r)
		}
	}
	return nil
}

func parseBootstrap(cfg *Config, value string, _ source) error {
	switch {
	case value == "":
		cfg.Bootstrap = Bootstrap{}
		return nil
	case strings.EqualFold(value, "observer"):
		cfg.Bootstrap = Bootstrap{Observer: true}
		return nil
	}
	n, err := number(value, 1, 255)
	cfg.Bootstrap = Bootstrap{N: n}
	return err
}

func parseCluster(cfg *Config, value string, _ source) error {
	// The label goes into every packet, and costs its length there.
	const maxLabel = 16
	if len(value) > maxLabel {
		return fmt.Errorf("it has %d bytes", len(value))
	}
	if err := checkLabel(value, ""); err != nil {
		return err
	}
	cfg.Cluster = value
	return nil
}

// checkLabel accepts letters, digits and, but for the ends, hyphens; and what
// is in also.
func checkLabel(label, also string) error {
	if label == "" {
		return errors.New("a part of it is empty")
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("a hyphen is first or last")
	}
	for _, r := range label {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-':
		case strings.ContainsRune(also, r):
		default:
			return fmt.Errorf("it contains %q", r)
		}
	}
	return nil
}

func parseInsecure(cfg *Config, value string, _ source) error {
	return boolean(&cfg.Insecure, value)
}

func parseBootAlone(cfg *Config, value string, _ source) error {
	return boolean(&cfg.BootAlone, value)
}

func parseDeal(cfg *Config, value string, _ source) error {
	deal, err := word(value, string(DealHalf), string(DealAll), string(DealNone))
	cfg.Deal = Deal(deal)
	return err
}

func parseChunk(cfg *Config, value string, _ source) error {
	if strings.EqualFold(value, "auto") {
		cfg.Chunk = 0
		return nil
	}
	n, err := number(value, 1, 65536)
	cfg.Chunk = n
	return err
}

func parseEvictAfter(cfg *Config, value string, _ source) error {
	// Gossip itself needs up to 17 s to call a silent peer dead; 10 s is for
	// laboratories.
	return durationOrNever(&cfg.EvictAfter, value, 10*time.Second, year)
}

func parseQuarantine(cfg *Config, value string, _ source) error {
	return durationOrNever(&cfg.Quarantine, value, time.Minute, year)
}

func parseRest(cfg *Config, value string, _ source) error {
	return duration(&cfg.Rest, value, 0, 24*time.Hour)
}

func parseTimeout(cfg *Config, value string, _ source) error {
	// The engine gives up after 30 s and shows the user an ugly text; our own
	// reason must reach it before.
	return duration(&cfg.Timeout, value, time.Second, 28*time.Second)
}

func parseMAC(cfg *Config, value string, _ source) error {
	return boolean(&cfg.MAC, value)
}

func parseAnnounce(cfg *Config, value string, _ source) error {
	return boolean(&cfg.Announce, value)
}

func parseDefaultPool(cfg *Config, value string, _ source) error {
	cfg.DefaultPool = value
	if strings.Contains(value, "/") {
		p, err := netip.ParsePrefix(value)
		switch {
		case err != nil:
			return errors.New("it is no subnet such as 10.50.0.0/24")
		case p != p.Masked():
			return fmt.Errorf("it has bits set behind its mask: %v has none", p.Masked())
		}
		return nil
	}
	for _, r := range value {
		if !unicode.IsPrint(r) || r == ' ' {
			return fmt.Errorf("it contains %q", r)
		}
	}
	if len(value) > 255 {
		return fmt.Errorf("it has %d bytes", len(value))
	}
	return nil
}

func parseToken(cfg *Config, value string, _ source) error {
	// It travels in a header field. A shorter one can be guessed.
	const minToken, maxToken = 16, 1024
	switch n := len(value); {
	case n > 0 && n < minToken:
		return fmt.Errorf("it has %d characters, which can be guessed", n)
	case n > maxToken:
		return fmt.Errorf("it has %d bytes", n)
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return fmt.Errorf("byte %d of it is a space or no visible ASCII", i+1)
		}
	}
	cfg.HTTP.Token = value
	return nil
}

func parseHTTPHosts(cfg *Config, value string, _ source) error {
	return entries(value, func(_ int, name string) error {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if len(name) > 253 {
			return fmt.Errorf("%s has %d bytes", shown(name), len(name))
		}
		for label := range strings.SplitSeq(name, ".") {
			if err := checkLabel(label, "_"); err != nil {
				return fmt.Errorf("%s is not the name of a host: %w", shown(name), err)
			}
		}
		if !slices.Contains(cfg.HTTP.Hosts, name) {
			cfg.HTTP.Hosts = append(cfg.HTTP.Hosts, name)
		}
		return nil
	})
}

func parseHTTPCert(cfg *Config, value string, _ source) error {
	cfg.HTTP.Cert = value
	return checkPath(value)
}

func parseHTTPKey(cfg *Config, value string, _ source) error {
	cfg.HTTP.Key = value
	return checkPath(value)
}

// checkPath wants a path that does not depend on where the process was started. The
// file may come later.
func checkPath(path string) error {
	if path != "" && !filepath.IsAbs(path) {
		return errors.New("the path must begin with a slash")
	}
	return nil
}

func parseLogLevel(cfg *Config, value string, _ source) error {
	level, err := word(value, "debug", "info", "warn", "error")
	if err != nil {
		return err
	}
	return cfg.LogLevel.UnmarshalText([]byte(level))
}

func parseLogFormat(cfg *Config, value string, _ source) error {
	format, err := word(value, LogText, LogJSON)
	cfg.LogFormat = format
	return err
}

// year is the longest time that is not better called never.
const year = 365 * 24 * time.Hour

// durationOrNever sets d, to 0 for never.
func durationOrNever(d *time.Duration, value string, shortest, longest time.Duration) error {
	if strings.EqualFold(value, "never") {
		*d = 0
		return nil
	}
	return duration(d, value, shortest, longest)
}

func duration(d *time.Duration, value string, shortest, longest time.Duration) error {
	v, err := time.ParseDuration(value)
	switch {
	case err != nil && isNumber(value):
		return fmt.Errorf("a unit is missing, as in %ss or %sm", value, value)
	case err != nil:
		return errors.New("not a duration, which is a number with a unit, as in 90s, 15m or 1h30m")
	case v < shortest:
		return errors.New("too short")
	case v > longest:
		return errors.New("too long")
	}
	*d = v
	return nil
}

func boolean(b *bool, value string) error {
	v, err := strconv.ParseBool(strings.ToLower(value))
	if err != nil {
		return errors.New("neither true nor false")
	}
	*b = v
	return nil
}

func number(value string, lowest, highest int) (int, error) {
	n, err := strconv.Atoi(value)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("out of range")
	case err != nil:
		return 0, errors.New("not a number")
	case n < lowest || n > highest:
		return 0, errors.New("out of range")
	}
	return n, nil
}

func isNumber(value string) bool {
	_, err := strconv.ParseUint(value, 10, 64)
	return err == nil
}

// word returns the accepted word that equals value, whatever its case.
func word(value string, accepted ...string) (string, error) {
	for _, a := range accepted {
		if strings.EqualFold(value, a) {
			return a, nil
		}
	}
	return "", errors.New("not one of the accepted words")
}

// entries calls f with each entry of a comma list, numbered from 1, without
// the space around it. It goes on after an error, up to a number that still
// fits a log, and joins what f returns.
func entries(value string, f func(n int, entry string) error) error {
	const maxErrors = 5
	if value == "" {
		return nil
	}
	var problems []error
	n := 0
	for entry := range strings.SplitSeq(value, ",") {
		n++
		entry = strings.TrimSpace(entry)
		err := errors.New("entry " + strconv.Itoa(n) + " of the list is empty")
		if entry != "" {
			err = f(n, entry)
		}
		if err != nil {
			problems = append(problems, err)
		}
		if len(problems) == maxErrors {
			break
		}
	}
	return errors.Join(problems...)
}
