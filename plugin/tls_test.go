package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/logging"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// writeCertificate writes a certificate for this host's names and its key, and returns who
// trusts it.
func writeCertificate(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"ringlet.example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: text}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return pool
}

// RINGLET_HTTP speaks TLS once its certificate is there, with the new one once that is
// replaced, and with the last good one while the files are of no use. Meanwhile the status
// says what is wrong, and all else works. What is written is in the log and the journal.
func TestTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	const token = "a-token-of-this-test"
	cfg, err := config.Load([]string{
		"RINGLET_HTTP=" + address, "RINGLET_HTTP_CERT=" + cert, "RINGLET_HTTP_KEY=" + key, "RINGLET_HTTP_HOSTS=ringlet.example.com", "RINGLET_TOKEN=" + token,
	}, func() (string, error) { return "host-a", nil })
	if err != nil {
		t.Fatal(err)
	}
	opts := cli.ServeOptions{Data: dir, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: filepath.Join(dir, "admin.sock"), DriverNames: []string{"ringlet"}}
	var log plugintest.Log
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, opts, cfg, log.Logger(), &logging.Sink{}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the process ended with %v", err)
		}
	}()
	local := plugintest.Client(opts.AdminSocket)
	defer local.CloseIdleConnections()
	problem := func() (p ipam.Problem, ok bool) {
		var st ipam.Status
		if answers(t, local, "http://ringlet/v1/status", &st) {
			p, ok = plugintest.Find(st.Problems, "http-certificate")
		}
		return p, ok
	}
	trusting := func(pool *x509.CertPool) *http.Client {
		return &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			},
		}}
	}
	plugintest.Eventually(t, "status shows that there is no certificate", func() bool {
		p, ok := problem()
		return ok && strings.Contains(p.Text, "cert.pem") && strings.Contains(p.Next, "RINGLET_HTTP_CERT")
	})
	first := writeCertificate(t, cert, key)
	for _, name := range []string{address, "ringlet.example.com"} {
		plugintest.Eventually(t, "it speaks TLS as "+name, func() bool { return answers(t, trusting(first), "https://"+name+"/v1/status", nil) })
	}
	if resp, err := http.Get("http://" + address + "/v1/status"); err == nil {
		if _ = resp.Body.Close(); resp.StatusCode == http.StatusOK {
			t.Error("it answers without TLS, too")
		}
	}
	plugintest.Eventually(t, "the problem ends", func() bool { _, ok := problem(); return !ok })

	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugintest.Eventually(t, "status shows that the key is none", func() bool { _, ok := problem(); return ok })
	if !answers(t, trusting(first), "https://"+address+"/v1/status", nil) {
		t.Error("the last good certificate is not used any more")
	}
	second := writeCertificate(t, cert, key)
	plugintest.Eventually(t, "the new certificate is used", func() bool { return answers(t, trusting(second), "https://"+address+"/v1/status", nil) })
	if answers(t, trusting(first), "https://"+address+"/v1/status", nil) {
		t.Error("the first certificate is still used")
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/v1/pools", strings.NewReader(`{"cidr":"10.77.0.0/24","name":"written"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := trusting(second).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("a write over TLS: %d %s", resp.StatusCode, text)
	}
	plugintest.Eventually(t, "the journal says who made the pool", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, journalName, "journal.jsonl"))
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"kind":"asked"`) && strings.Contains(line, "pool-create cidr=10.77.0.0/24 name=written: ok, asked by 127.0.0.1:") && strings.Contains(line, "over RINGLET_HTTP") {
				return true
			}
		}
		return false
	})
	if log.Count("write answered", "10.77.0.0/24", "RINGLET_HTTP") != 1 || log.Count(token) > 0 {
		t.Error("the log lacks the write, or has the token")
	}
}
