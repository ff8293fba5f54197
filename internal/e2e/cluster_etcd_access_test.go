package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// hasProblem waits until the plugin has a problem with these words in its text.
func (e *Engine) hasProblem(code, words string) {
	e.t.Helper()
	said := ""
	Eventually(e.t, directoryLimit, fmt.Sprintf("%s has the problem %s with %q", e.Name, code, words), func() bool {
		st, err := e.Status()
		said = fmt.Sprint(st.Problems, err)
		return slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Code == code && strings.Contains(p.Text, words) && p.Next != "" })
	})
	fmt.Fprintln(e.t.Output(), e.Name, "says", said)
}

// hasNoProblem waits until the plugin has no problem with that code.
func (e *Engine) hasNoProblem(code string) {
	e.t.Helper()
	Eventually(e.t, directoryLimit, e.Name+" has no problem "+code, func() bool {
		st, err := e.Status()
		return err == nil && !slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Code == code })
	})
}

// An authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate, which signs itself as long as the authority has none.
func (a *authority) sign(form *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	form.SerialNumber, form.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	form.NotBefore, form.NotAfter, form.BasicConstraintsValid = time.Now().Add(-time.Hour), time.Now().Add(time.Hour), true
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = form, key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// write writes ca.pem, and cert.pem and key.pem for an address, into a folder.
func (a *authority) write(dir string, at net.IP) {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{at},
	})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: a.cert.Raw}, "cert.pem": {Type: "CERTIFICATE", Bytes: cert.Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// K6: a host shows an etcd its certificate, and a user with a password. A wrong one is a problem of status, and is mended by a file.
// So is a wrong address, by a setting.
func TestClusterEtcdAccess(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 1)
	e, ours := c.Engines[0], newAuthority(t)
	dir := t.TempDir()
	ours.write(dir, etcdAt.AsSlice())
	file := func(name string) string { return filepath.Join(dir, name) }
	store := NewETCD(t, c.Switch, etcdAt, "https",
		[]string{"--cert-file", file("cert.pem"), "--key-file", file("key.pem"), "--client-cert-auth", "--trusted-ca-file", file("ca.pem")},
		[]string{"--cacert", file("ca.pem"), "--cert", file("cert.pem"), "--key", file("key.pem")})
	for _, args := range []string{
		"user add root:root", "user grant-role root root", "user add ringlet:secret", "role add ringlet", "user grant-role ringlet ringlet",
		"role grant-permission ringlet --prefix=true readwrite ringlet/", "auth enable",
	} {
		store.Ctl(strings.Fields(args)...)
	}
	store.Client = append(store.Client, "--user", "root:root")

	e.CreatePlugin(Plugin, append(c.Settings(e), "RINGLET_ETCD="+store.URL, "RINGLET_ETCD_CA=/data/etcd/ca.pem", "RINGLET_ETCD_CERT=/data/etcd/cert.pem",
		"RINGLET_ETCD_KEY=/data/etcd/key.pem", "RINGLET_ETCD_USER=ringlet", "RINGLET_ETCD_PASSWORD_FILE=/data/etcd/password")...)
	data := filepath.Join(filepath.Dir(e.database()), "etcd")
	e.Run("mkdir", "-p", data)
	password := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(e.path(data), "password"), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mended := func(what string) {
		t.Helper()
		store.Mirrors(directoryLimit, what, e)
		e.hasNoProblem("etcd-unavailable")
	}
	ours.write(e.path(data), etcdAt.AsSlice())
	password("wrong")
	e.Docker("plugin", "enable", Plugin)
	e.hasProblem("etcd-unavailable", "refuses the user ringlet with this password")
	e.Docker("network", "create", "--ipam-driver", Plugin, "--subnet", lanSubnet, "lan") // all the same
	password("secret")
	mended("with the right password")

	store.Down()
	e.hasProblem("etcd-unavailable", "cannot be reached") // else the connection goes on with the files that it has read
	newAuthority(t).write(e.path(data), etcdAt.AsSlice())
	store.Up()
	e.hasProblem("etcd-unavailable", "does not accept etcd's certificate")
	if err := os.WriteFile(filepath.Join(e.path(data), "ca.pem"), []byte(e.File(file("ca.pem"))), 0o600); err != nil {
		t.Fatal(err)
	}
	e.hasProblem("etcd-unavailable", "refuses this host's certificate")
	ours.write(e.path(data), etcdAt.AsSlice())
	mended("with the right certificate")

	// Where nobody is, where no etcd listens, and where no name leads: each is one sentence, and is mended by a setting.
	at := func(url string) {
		t.Helper()
		e.Docker("plugin", "disable", "--force", Plugin)
		e.Docker("plugin", "set", Plugin, "RINGLET_ETCD="+url)
		e.Docker("plugin", "enable", Plugin)
	}
	for url, why := range map[string]string{
		"https://192.168.50.98:2379":                     "cannot be reached: ",
		fmt.Sprintf("https://%v:%d", etcdAt, etcdPort+9): "cannot be reached: connect: connection refused",
		"https://etcd.invalid:2379":                      "cannot be reached: the name etcd.invalid ", // with what the host's resolver says
	} {
		at(url)
		e.hasProblem("etcd-unavailable", "etcd does not get a copy of the directory: "+url+" "+why)
	}
	at(store.URL)
	mended("at the right address")
}
