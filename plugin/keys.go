package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ringlet/ringlet/internal/durable"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
)

// fingerprintBytes is how much of a key's hash is shown: enough to tell the few
// keys of a cluster apart, and nothing to find a random key by.
const fingerprintBytes = 4

func fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:fingerprintBytes])
}

// Keys implements [admin.Process].
func (p *daemon) Keys(context.Context) (admin.Keys, error) {
	keys, err := p.cfg.ReadKeys()
	if err != nil {
		return admin.Keys{}, refuse("the keys cannot be read: %v", err)
	}
	return p.keys(keys), nil
}

func (p *daemon) keys(keys [][]byte) admin.Keys {
	out := admin.Keys{Source: "none", File: p.cfg.KeyFile, Keys: []admin.Key{}}
	for i, key := range keys {
		out.Keys = append(out.Keys, admin.Key{Fingerprint: fingerprint(key), Encrypts: i == 0})
	}
	switch {
	case p.cfg.KeyFile != "":
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
func (p *daemon) ChangeKeys(_ context.Context, c admin.KeyChange) (admin.Keys, error) {
	if p.cfg.KeyFile == "" {
		return admin.Keys{}, refuse("the keys are in the settings: to change them, disable the plugin, run docker plugin set RINGLET_KEY=…, and enable it; with RINGLET_KEY_FILE they can change while it runs")
	}
	key, err := config.ParseKey(c.Key)
	if err != nil {
		return admin.Keys{}, refuse("the key is not usable: it %v; ringlet keygen makes one", err)
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	have, err := p.cfg.ReadKeys()
	if err != nil {
		return admin.Keys{}, refuse("the keys cannot be read: %v", err)
	}
	want, err := changed(have, key, c.Step)
	if err != nil {
		return admin.Keys{}, err
	}
	if !slices.EqualFunc(have, want, bytes.Equal) {
		if err := writeKeys(p.cfg.KeyFile, want); err != nil {
			return admin.Keys{}, refuse("the key file cannot be written: %v; ringlet keys ls shows what it has now", err)
		}
	}
	return p.keys(want), nil
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
