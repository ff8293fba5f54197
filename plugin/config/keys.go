package config

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// maxKeyFile is the longest key file, in bytes: over a thousand keys.
const maxKeyFile = 64 << 10

func parseKeys(cfg *Config, value string, _ source) error {
	if value == "" {
		return nil
	}
	var keys [][]byte
	err := entries(value, func(n int, entry string) error {
		return appendKey(&keys, entry, fmt.Sprintf("key %d", n))
	})
	cfg.Keys = keys
	return err
}

func parseKeyFile(cfg *Config, value string, src source) error {
	if value == "" {
		return nil
	}
	content, err := src.readFile(value)
	if err != nil {
		// The path stands in the error already, quoted.
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return fmt.Errorf("the key file cannot be read: %w", err)
	}
	var keys [][]byte
	var problems []error
	n := 0
	for line := range bytes.Lines(content) {
		n++
		entry := strings.TrimSpace(string(line))
		if entry == "" || strings.HasPrefix(entry, "#") {
			continue
		}
		if err := appendKey(&keys, entry, fmt.Sprintf("line %d", n)); err != nil {
			problems = append(problems, err)
		}
	}
	if len(keys) == 0 && len(problems) == 0 {
		return errors.New("there is no key in the file")
	}
	cfg.Keys, cfg.KeyFile = keys, value
	return errors.Join(problems...)
}

// ReadKeys returns the keys of the cluster as they are now: those of the key
// file, read again, or those of RINGLET_KEY. Its errors name the file, and do not
// show them.
func (c Config) ReadKeys() ([][]byte, error) {
	if c.KeyFile == "" {
		return c.Keys, nil
	}
	again := Config{}
	if err := parseKeyFile(&again, c.KeyFile, source{readFile: readKeyFile}); err != nil {
		return nil, fmt.Errorf("%s: %w", c.KeyFile, err)
	}
	return again.Keys, nil
}

// ParseKey reads one key. Its error goes behind the key's name, and does not
// show it.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case err != nil:
		return nil, errors.New("is not base64")
	case len(key) != KeySize:
		return nil, fmt.Errorf("has %d bytes and not %d", len(key), KeySize)
	}
	return key, nil
}

// hasKey reports whether an entry of a list is a key.
func hasKey(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if _, err := ParseKey(strings.TrimSpace(entry)); err == nil {
			return true
		}
	}
	return false
}

// appendKey decodes a key. Its errors call it by its place, never by its text.
func appendKey(keys *[][]byte, text, place string) error {
	key, err := ParseKey(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s %w", place, err)
	case slices.ContainsFunc(*keys, func(k []byte) bool { return bytes.Equal(k, key) }):
		return fmt.Errorf("%s is there twice", place)
	}
	*keys = append(*keys, key)
	return nil
}

// readKeyFile reads a regular file of moderate size. Anything else is refused
// before it is opened: a pipe would hold up the start for ever.
func readKeyFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxKeyFile {
		return nil, fmt.Errorf("it is longer than %d bytes", maxKeyFile)
	}
	return content, nil
}
