package certfile_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/plugin/certfile"
)

// pair makes a certificate for a name, and its key, in PEM.
func pair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// name is whose certificate a server shows; empty if it shows none.
func name(t *testing.T, c *tls.Config) string {
	t.Helper()
	got, err := c.GetCertificate(nil)
	if errors.Is(err, certfile.ErrNone) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.Subject.CommonName
}

// New files are used once they are a whole pair. Until then the last good one is, and
// what is wrong with them is said.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert1, key1 := pair(t, "one")
	cert2, key2 := pair(t, "two")
	p := certfile.New(cert, key)
	config := p.Config()
	for _, step := range []struct {
		what      string
		cert, key []byte // nil: as it is; empty: removed
		want      string
		problem   string // a part of it; empty: none
	}{
		{"no files", nil, nil, "", "no such file"},
		{"a certificate without its key", cert1, nil, "", "no such file"},
		{"both", nil, key1, "one", ""},
		{"the same", cert1, key1, "one", ""},
		{"the certificate of another key", cert2, nil, "one", "private key"},
		{"both again", nil, key2, "two", ""},
		{"no certificate", []byte("hello"), nil, "two", "no certificate with its private key"},
		{"one that is gone", []byte{}, nil, "two", "no such file"},
		{"one that is too large", []byte(strings.Repeat("x", 2<<20)), nil, "two", "more than a certificate"},
		{"the first again", cert1, key1, "one", ""},
	} {
		for path, text := range map[string][]byte{cert: step.cert, key: step.key} {
			switch {
			case text == nil:
			case len(text) == 0:
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			default:
				write(t, path, text)
			}
		}
		for range 2 { // also of files that have not changed
			err := p.Load()
			if (err == nil) != (step.problem == "") || err != nil && !strings.Contains(err.Error(), step.problem) {
				t.Errorf("%s: %v, want %q", step.what, err, step.problem)
			}
			if got := name(t, config); got != step.want {
				t.Errorf("%s: the certificate of %q is shown, want that of %q", step.what, got, step.want)
			}
		}
	}
}

// The files are looked at every five seconds.
func TestRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := certfile.New(filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
		ctx, cancel := context.WithCancel(t.Context())
		var problems []error
		ended := make(chan error)
		go func() { ended <- p.Run(ctx, func(err error) { problems = append(problems, err) }) }()
		synctest.Wait()
		certText, keyText := pair(t, "one")
		write(t, filepath.Join(dir, "cert"), certText)
		write(t, filepath.Join(dir, "key"), keyText)
		time.Sleep(5*time.Second + 1)
		synctest.Wait()
		if len(problems) != 2 || problems[0] == nil || problems[1] != nil || name(t, p.Config()) != "one" {
			t.Errorf("told %v", problems)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
