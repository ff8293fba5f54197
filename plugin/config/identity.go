package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IdentityNone is the value of RINGLET_IDENTITY_LABELS with which containers have no identity.
const IdentityNone = "none"

// maxLabelName is the longest name of a label that counts, in bytes.
const maxLabelName = 255

func parseIdentityLabels(cfg *Config, value string, _ source) error {
	if strings.EqualFold(value, IdentityNone) {
		return nil
	}
	return entries(value, func(_ int, name string) error {
		if err := checkLabelName(name); err != nil {
			return fmt.Errorf("%s is no name or prefix: %w", shown(name), err)
		}
		if !slices.Contains(cfg.IdentityLabels, name) {
			cfg.IdentityLabels = append(cfg.IdentityLabels, name)
		}
		return nil
	})
}

// checkLabelName accepts the name of a label, or the begin of some with a * behind it.
func checkLabelName(name string) error {
	begin, _ := strings.CutSuffix(name, "*")
	switch {
	case begin == "":
		return errors.New("every label would count, also those that differ between any two containers")
	case strings.Contains(begin, "*"):
		return errors.New("the * of a prefix is its last character")
	case strings.EqualFold(name, IdentityNone):
		return errors.New("it stands alone, without other entries")
	case strings.HasSuffix(name, "."):
		return fmt.Errorf("a prefix ends with *, as in %s*", name)
	case len(name) > maxLabelName:
		return fmt.Errorf("it has %d bytes", len(name))
	case !utf8.ValidString(name):
		return errors.New("it is not UTF-8")
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || r == ' ' || r == '=' {
			return fmt.Errorf("it contains %q", r)
		}
	}
	return nil
}
