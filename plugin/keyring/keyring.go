// Package keyring shows and changes the keys of the cluster on this host, one step at a time: each step is safe only after the one
// before it was done on all hosts. It also says when others than the owner may use their file.
//
// It refuses to know who encrypts with the keys: the network between peers reads the file again by itself.
package keyring

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ringlet/ringlet/internal/durable"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/fault"
)

// fingerprintBytes is how much of a key's hash is shown: enough to tell the few
// keys of a cluster apart, and nothing to find a random key by.
const fingerprintBytes = 4

func fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:fingerprintBytes])
}

// Ring is the keys of the cluster on this host: those of the key file, or of the settings. Use New. Safe for concurrent use.
type Ring struct {
	cfg config.Config

	changing sync.Mutex // the key file
}

// New returns the ring of the settings.
func New(cfg config.Config) *Ring { return &Ring{cfg: cfg} }

// Keys implements [admin.Process].
func (r *Ring) Keys(context.Context) (admin.Keys, error) {
	keys, err := r.cfg.ReadKeys()
	if err != nil {
		return admin.Keys{}, refuse("the keys cannot be read: %v", err)
	}
	return r.keys(keys), nil
}

func (r *Ring) keys(keys [][]byte) admin.Keys {
	out := admin.Keys{Source: "none", File: r.cfg.KeyFile, Keys: []admin.Key{}}
	for i, key := range keys {
		out.Keys = append(out.Keys, admin.Key{Fingerprint: fingerprint(key), Encrypts: i == 0})
	}
	switch {
	case r.cfg.KeyFile != "":
		out.Source = "file"
	case len(keys) > 0:
		out.Source = "settings"
	}
	return out
}

func refuse(format string, args ...any) error {
	return &ipam.Error{Kind: ipam.ErrBadRequest, Text: fmt.Sprintf(format, args...)}
}

// ChangeKeys implements [admin.Process]. The file is replaced as a whole: the
// network reads it again by itself.
func (r *Ring) ChangeKeys(_ context.Context, c admin.KeyChange) (admin.Keys, error) {
	if r.cfg.KeyFile == "" {
		return admin.Keys{}, refuse("the keys are in the settings: to change them, disable the plugin, run docker plugin set RINGLET_KEY=…, and enable it; with RINGLET_KEY_FILE they can change while it runs")
	}
	key, err := config.ParseKey(c.Key)
	if err != nil {
		return admin.Keys{}, refuse("the key is not usable: it %v; ringlet keygen makes one", err)
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	have, err := r.cfg.ReadKeys()
	if err != nil {
		return admin.Keys{}, refuse("the keys cannot be read: %v", err)
	}
	want, err := changed(have, key, c.Step)
	if err != nil {
		return admin.Keys{}, err
	}
	if !slices.EqualFunc(have, want, bytes.Equal) {
		if err := writeKeys(r.cfg.KeyFile, want); err != nil {
			return admin.Keys{}, refuse("the key file cannot be written: %v; ringlet keys ls shows what it has now", err)
		}
	}
	return r.keys(want), nil
}

// changed returns the keys after one step of a change. Each step is safe only
// after the one before was done on all hosts.
func changed(have [][]byte, key []byte, step string) ([][]byte, error) {
	at := slices.IndexFunc(have, func(k []byte) bool { return bytes.Equal(k, key) })
	switch step {
	case admin.KeyAdd:
		if at >= 0 {
			return have, nil
		}
		return append(slices.Clone(have), key), nil
	case admin.KeyUse:
		if at < 0 {
			return nil, refuse("this host does not have that key yet: add it on all hosts first, or those that lack it understand nothing")
		}
		return slices.Insert(slices.Delete(slices.Clone(have), at, at+1), 0, key), nil
	case admin.KeyDrop:
		if at != 0 {
			return nil, refuse("this host does not encrypt with that key: use it on all hosts first, then drop the others")
		}
		return have[:1], nil
	}
	return nil, refuse("step is %s, %s or %s, not %q", admin.KeyAdd, admin.KeyUse, admin.KeyDrop, step)
}

// writeKeys replaces the key file by another, so that whoever reads it finds
// the one or the other, and the new one is on disk: the next step, on other hosts,
// relies on it. Of a link it is the file to which it leads.
func writeKeys(path string, keys [][]byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	text := []byte("# Keys of the cluster, see ringlet keys: the first encrypts, all decrypt.\n")
	for _, key := range keys {
		text = append(base64.StdEncoding.AppendEncode(text, key), '\n')
	}
	return durable.Replace(path, text)
}

// Open returns the fault of a key file that others than its owner may
// read or replace. It is looked at whenever somebody asks for the status, as the
// file can be replaced at any time. Who may reach the folder above it is not
// looked at: inside a managed plugin that cannot be seen.
func (r *Ring) Open(logger *slog.Logger) *fault.Fault {
	return &fault.Fault{
		Logger: logger, Code: "keys-open",
		Look: func() error {
			if r.cfg.KeyFile == "" {
				return nil
			}
			info, err := os.Stat(r.cfg.KeyFile)
			if err != nil || info.Mode().Perm()&othersMay == 0 {
				return nil //nolint:nilerr // of a file that is not there the network tells
			}
			return fmt.Errorf("mode %04o", info.Mode().Perm())
		},
		Text: func(err error) string {
			return fmt.Sprintf("other users than its owner may use the file of the cluster's keys, %s (%v), and a key admits any machine as a peer", r.cfg.KeyFile, err)
		},
		Next: "run chmod 600 on the file, under its path on the host; if another user may have read it, replace the key with ringlet keys rotate",
	}
}

// othersMay are the mode bits of a file that let others than its owner use it.
const othersMay fs.FileMode = 0o077
