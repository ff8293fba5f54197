package gossip

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/internal/backoff"
)

// rekeyEvery is how often the keys are read again, or somewhat more often: operators go by it.
const rekeyEvery = 10 * time.Second

var errNoKeys = adviceErrorf("put the keys back", "there is no key any more, and a cluster with keys does not go back: the last ones stay in use")

// readKeys asks for the keys and checks them. Its error says what to do.
func (g *Gossip) readKeys() ([][]byte, error) {
	if g.cfg.Keys == nil {
		return nil, nil
	}
	given, err := g.cfg.Keys()
	var keys [][]byte
	if err == nil {
		keys, err = distinct(given)
	}
	if err != nil {
		return nil, adviceErrorf("mend RINGLET_KEY_FILE, it is read again every few seconds", "the keys of the cluster cannot be read: %w", err)
	}
	return keys, nil
}

// distinct returns copies of keys, each once.
func distinct(given [][]byte) ([][]byte, error) {
	var keys [][]byte
	for i, key := range given {
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("key %d has %d bytes, and not 16, 24 or 32", i+1, len(key))
		}
		if !contains(keys, key) {
			keys = append(keys, bytes.Clone(key))
		}
	}
	return keys, nil
}

// keysAfter returns the keys to use after those in use. Keys that cannot be read change
// nothing: a file that is just being written must not cost the connection. With an error
// it returns those in use.
func (g *Gossip) keysAfter(have [][]byte) ([][]byte, error) {
	keys, err := g.readKeys()
	switch {
	case err != nil && len(have) > 0:
		return have, fmt.Errorf("the last keys stay in use: %w", err)
	case err == nil && len(keys) == 0 && len(have) > 0:
		return have, errNoKeys
	}
	return keys, err
}

// rekey follows the keys until ctx ends.
func (s *session) rekey(ctx context.Context) {
	if s.g.cfg.Keys == nil {
		return
	}
	for backoff.Sleep(ctx, s.g.cfg.Pace.Within(rekeyEvery), nil) {
		keys, err := s.g.keysAfter(s.keyring.GetKeys())
		if err == nil {
			err = s.setKeys(keys)
		}
		s.g.diagnostics.keys.set(err)
	}
}

// setKeys makes these the keys. Memberlist reads its list of keys while
// RemoveKey shifts it in place, so only the last is ever removed.
func (s *session) setKeys(want [][]byte) error {
	have := s.keyring.GetKeys()
	switch {
	case alike(have, want):
		return nil
	case len(want) == 0:
		return errNoKeys
	}
	if err := s.g.screen.use(want); err != nil {
		return err
	}
	if err := s.keyring.AddKey(want[0]); err != nil {
		return err
	}
	if err := s.keyring.UseKey(want[0]); err != nil {
		return err
	}
	if slices.ContainsFunc(have, func(key []byte) bool { return !contains(want, key) }) {
		for _, key := range slices.Backward(s.keyring.GetKeys()[1:]) {
			if err := s.keyring.RemoveKey(key); err != nil {
				return err
			}
		}
	}
	for _, key := range want[1:] {
		if err := s.keyring.AddKey(key); err != nil {
			return err
		}
	}
	s.g.log.Info("keys changed", countAttr(len(want)))
	return nil
}

// alike reports whether two lists have the same keys with the same one first: the
// order of those that only decrypt is of no account.
func alike(a, b [][]byte) bool {
	if len(a) != len(b) || len(a) == 0 {
		return len(a) == len(b)
	}
	return bytes.Equal(a[0], b[0]) && !slices.ContainsFunc(b, func(key []byte) bool { return !contains(a, key) })
}

func contains(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}
