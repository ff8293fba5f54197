package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issuer makes certificates.
type issuer struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	path string
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	i := &issuer{t: t, dir: t.TempDir()}
	i.cert, i.key, i.path, _ = i.issue(name, true)
	return i
}

// issue makes a certificate for 127.0.0.1, and returns the paths of it and of its key.
func (i *issuer) issue(name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: ca,
	}
	parent, signer := form, key
	if ca {
		form.KeyUsage |= x509.KeyUsageCertSign
	} else {
		parent, signer = i.cert, i.key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		i.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	return cert, key, i.file(name+".pem", "CERTIFICATE", der), i.file(name+"-key.pem", "PRIVATE KEY", private)
}

func (i *issuer) file(name, kind string, der []byte) string {
	i.t.Helper()
	path := filepath.Join(i.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		i.t.Fatal(err)
	}
	return path
}

// refused waits for what a host reports, which has to have these words in it.
func refused(t *testing.T, h *host, cfg Config, words string) {
	t.Helper()
	h.reports.forget()
	h.mirrored(cfg)
	defer h.end()
	until(t, 25*time.Second, "something is reported", h.reports.known)
	if err := h.reports.get(); err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
		t.Errorf("want %q, got %v", words, err)
	}
}

// accepted waits until a host is mirrored.
func accepted(t *testing.T, s *server, h *host, cfg Config) {
	t.Helper()
	h.reports.forget()
	h.mirrored(cfg)
	until(t, 20*time.Second, "something is reported", h.reports.known)
	alike(t, 20*time.Second, s, h)
	until(t, 20*time.Second, "no error is reported", func() bool { return h.reports.get() == nil })
	h.end()
}

// K6: a user with its password, and what is said of a wrong one.
func TestUser(t *testing.T) {
	s := start(t)
	h := newCluster(t, "lab", 1, 1).hosts[0]
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret\n")
	cfg := Config{Endpoints: []string{s.client}, User: "ringlet", PasswordFile: password}
	accepted(t, s, h, cfg) // an etcd without users asks for none
	for _, args := range [][]string{
		{"user", "add", "root:root"},
		{"user", "grant-role", "root", "root"},
		{"user", "add", "ringlet:secret"},
		{"role", "add", "ringlet"},
		{"user", "grant-role", "ringlet", "ringlet"},
		{"auth", "enable"},
	} {
		s.ctl(args...)
	}
	s.user = "root:root"
	refused(t, h, Config{Endpoints: []string{s.client}}, "etcd wants a user")
	refused(t, h, cfg, "lets the user ringlet not read and write all keys that begin with ringlet/")
	s.ctl("role", "grant-permission", "ringlet", "--prefix=true", "readwrite", "ringlet/")
	accepted(t, s, h, cfg)
	write("wrong\n")
	refused(t, h, cfg, "refuses the user ringlet with this password")
	write("\n")
	refused(t, h, cfg, "is empty: write the password")
	cfg.PasswordFile += "-none"
	refused(t, h, cfg, "RINGLET_ETCD_PASSWORD_FILE cannot be read")
}

// K6: mutual TLS, and what is said of each wrong file.
func TestTLS(t *testing.T) {
	ours, other := newIssuer(t, "ours"), newIssuer(t, "other")
	_, _, serverCert, serverKey := ours.issue("server", false)
	_, _, cert, key := ours.issue("host", false)
	_, _, strange, strangeKey := other.issue("stranger", false)
	s := (&server{ca: ours.path, cert: cert, key: key}).start(t, "https", "--cert-file", serverCert, "--key-file", serverKey, "--client-cert-auth", "--trusted-ca-file", ours.path)
	h := newCluster(t, "lab", 1, 1).hosts[0]
	good := Config{Endpoints: []string{s.client}, CA: ours.path, Cert: cert, Key: key}
	accepted(t, s, h, good)
	for words, change := range map[string]func(*Config){
		"does not accept etcd's certificate":     func(c *Config) { c.CA = other.path },
		"refuses this host's certificate":        func(c *Config) { c.Cert, c.Key = strange, strangeKey },
		"RINGLET_ETCD_CA cannot be read":         func(c *Config) { c.CA += "-none" },
		"has no certificate in PEM":              func(c *Config) { c.CA = key },
		"are no certificate with its key":        func(c *Config) { c.Key = strangeKey },
		"cannot be reached: connect: connection": func(c *Config) { c.Endpoints = []string{"https://" + free(t)} },
		"the name etcd.invalid does not resolve": func(c *Config) { c.Endpoints = []string{"https://etcd.invalid:2379"} },
		"refuses this host's certificate: tls":   func(c *Config) { c.Cert, c.Key = "", "" },
		"does not answer within 5s: check that http": func(c *Config) {
			c.Endpoints = []string{"http" + strings.TrimPrefix(s.client, "https")}
			c.CA, c.Cert, c.Key = "", "", ""
		},
	} {
		cfg := good
		change(&cfg)
		refused(t, h, cfg, words)
	}
}
