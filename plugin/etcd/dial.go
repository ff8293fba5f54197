package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// dial returns a client of etcd. Files are read each time, so that one that was
// replaced counts from the next connection on.
func (m *Mirror) dial(ctx context.Context) (*clientv3.Client, error) {
	password, err := m.password()
	if err != nil {
		return nil, err
	}
	secure, err := m.tls()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: m.cfg.Endpoints, TLS: secure, Username: m.cfg.User, Password: password, Logger: zap.NewNop(),
		DialTimeout: answerTime, DialKeepAliveTime: keepAliveEvery, DialKeepAliveTimeout: answerTime,
	})
	return client, m.explain(ctx, err)
}

func (m *Mirror) password() (string, error) {
	if m.cfg.User == "" {
		return "", nil
	}
	b, err := os.ReadFile(m.cfg.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("the file of RINGLET_ETCD_PASSWORD_FILE cannot be read: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("the first line of %s (RINGLET_ETCD_PASSWORD_FILE) is empty: write the password of the user %s there", m.cfg.PasswordFile, m.cfg.User)
	}
	return line, nil
}

func (m *Mirror) tls() (*tls.Config, error) {
	if !strings.HasPrefix(m.cfg.Endpoints[0], "https:") {
		return nil, nil // none
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.cfg.CA != "" {
		b, err := os.ReadFile(m.cfg.CA)
		if err != nil {
			return nil, fmt.Errorf("the file of RINGLET_ETCD_CA cannot be read: %w", err)
		}
		if out.RootCAs = x509.NewCertPool(); !out.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s (RINGLET_ETCD_CA) has no certificate in PEM", m.cfg.CA)
		}
	}
	if m.cfg.Cert != "" {
		pair, err := tls.LoadX509KeyPair(m.cfg.Cert, m.cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("RINGLET_ETCD_CERT and RINGLET_ETCD_KEY are no certificate with its key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// explain says what an error of etcd means for an operator.
func (m *Mirror) explain(ctx context.Context, err error) error {
	user := cmp.Or(m.cfg.User, "(none)")
	err = rpctypes.Error(err)
	switch {
	case err == nil, errors.Is(err, errAgain), errors.Is(err, context.Canceled), errors.As(err, new(labelError)):
		return err
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // somebody revoked it, or etcd lost its data
		return errAgain
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return fmt.Errorf("etcd refuses the user %s with this password: check RINGLET_ETCD_USER and RINGLET_ETCD_PASSWORD_FILE", user)
	case errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrInvalidAuthToken) && m.cfg.User == "":
		return errors.New("etcd wants a user: set RINGLET_ETCD_USER and RINGLET_ETCD_PASSWORD_FILE")
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("etcd lets the user %s not read and write all keys that begin with ringlet/: grant a role with etcdctl role grant-permission ROLE --prefix=true readwrite ringlet/", user)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return errors.New("etcd has no space left: compact and defragment it, then run etcdctl alarm disarm")
	}
	if why := m.unreachable(ctx); why != nil {
		return why
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcd does not answer within %v: check that %s is an etcd v3 that has a leader", answerTime, strings.Join(m.cfg.Endpoints, ","))
	}
	return err
}

// unreachable finds out why no endpoint can be reached; nil if one can. The
// client tells only that time was up.
func (m *Mirror) unreachable(ctx context.Context) (first error) {
	secure, err := m.tls()
	if err != nil {
		return err
	}
	for _, endpoint := range m.cfg.Endpoints {
		err := reach(context.WithoutCancel(ctx), endpoint, secure)
		if err == nil {
			return nil
		}
		first = cmp.Or(first, fmt.Errorf("%s cannot be reached: %w", endpoint, err))
	}
	return first
}

// reach connects to an endpoint as the client does, and waits a moment for what a
// server says that refuses a certificate.
func reach(ctx context.Context, endpoint string, secure *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return plain(err)
	}
	defer func() { _ = conn.Close() }()
	if secure == nil {
		return nil
	}
	secure = secure.Clone()
	secure.ServerName, secure.NextProtos = u.Hostname(), []string{"h2"}
	over := tls.Client(conn, secure)
	if err := over.HandshakeContext(ctx); err != nil {
		return refusal(err)
	}
	if err := over.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = over.Read(make([]byte, 1))
	if _, refused := errors.AsType[*net.OpError](err); refused && !errors.Is(err, os.ErrDeadlineExceeded) {
		return refusal(err)
	}
	return nil
}

// plain strips an error of the network of its address, which its reader was told.
func plain(err error) error {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return fmt.Errorf("the name %s does not resolve to an address", e.Name)
	} else if ok {
		return fmt.Errorf("the name %s cannot be looked up: %s", e.Name, e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}

// refusal says whose certificate is refused by whom.
func refusal(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("this host does not accept etcd's certificate: %w; check RINGLET_ETCD_CA and the name in RINGLET_ETCD", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("it does not speak TLS: write http:// in RINGLET_ETCD, or have etcd serve https")
	}
	if strings.Contains(err.Error(), "certificate") { // an alert of the server, which has no type of its own
		return fmt.Errorf("etcd refuses this host's certificate: %w; check RINGLET_ETCD_CERT and RINGLET_ETCD_KEY", plain(err))
	}
	return plain(err)
}
