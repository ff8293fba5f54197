package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// etcdPort and etcdPeerPort are those of an [ETCD].
const etcdPort, etcdPeerPort = 2379, 2380

// An ETCD is a real etcd, as Debian has it, on a host of its own on the switch of a cluster. Use [NewETCD]. Its methods belong
// to the goroutine of the test.
type ETCD struct {
	*Host
	// URL is where hosts on the switch reach it.
	URL string
	// Client are further arguments of etcdctl, such as --user.
	Client []string
	// Without are engines whose plugins have no etcd set: it has no keys of theirs.
	Without []*Engine

	log    *Log
	data   string   // folder with its data
	server []string // further arguments of etcd
	proc   *process
}

// NewETCD starts an etcd at that address of the switch, with further arguments, and returns when it answers. Client are further
// arguments of etcdctl. It ends with the test. Scheme is http or https.
func NewETCD(t testing.TB, s *Switch, at netip.Addr, scheme string, server, client []string) *ETCD {
	t.Helper()
	need(t, "etcd", "etcdctl")
	e := &ETCD{Host: NewHost(t, "etcd"), URL: fmt.Sprintf("%s://%v:%d", scheme, at, etcdPort), Client: client, log: newLog(), server: server}
	e.data = filepath.Join(e.dir, "etcd")
	s.Plug(e.Host, netip.PrefixFrom(at, 24))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of etcd:\n%s", e.log.tail(15))
		}
	})
	e.Up()
	return e
}

// Up starts the process, and returns when it answers.
func (e *ETCD) Up() {
	e.t.Helper()
	peer := fmt.Sprintf("http://127.0.0.1:%d", etcdPeerPort)
	p, err := e.spawn(e.log, "etcd", append([]string{
		"--data-dir", e.data, "--listen-client-urls", e.URL, "--advertise-client-urls", e.URL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
	}, e.server...)...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.proc = p
	Eventually(e.t, startLimit, "etcd answers", func() bool {
		_, err := e.try("endpoint", "health") // with users it says so, too
		return err == nil
	})
}

// Down ends the process, as a crash does. Its data stays.
func (e *ETCD) Down() {
	e.t.Helper()
	if err := e.proc.end("KILL"); err != nil {
		e.t.Fatal(err)
	}
}

// Wipe has the next [ETCD.Up] start without data.
func (e *ETCD) Wipe() { e.data += "x" }

// Freeze stops the process with SIGSTOP: it keeps its connections and answers nothing.
func (e *ETCD) Freeze() {
	e.t.Helper()
	if err := e.proc.signal("STOP"); err != nil {
		e.t.Fatal(err)
	}
}

// Thaw continues it after [ETCD.Freeze].
func (e *ETCD) Thaw() {
	e.t.Helper()
	if err := e.proc.signal("CONT"); err != nil {
		e.t.Fatal(err)
	}
}

// Ctl runs etcdctl and returns what it printed.
func (e *ETCD) Ctl(args ...string) string {
	e.t.Helper()
	out, err := e.try(args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

func (e *ETCD) try(args ...string) (string, error) {
	all := append([]string{"ETCDCTL_API=3", "etcdctl", "--endpoints", e.URL, "--dial-timeout", "2s", "--command-timeout", "5s"}, e.Client...)
	return e.Try("env", append(all, args...)...)
}

// An etcdKey is what an etcd has at a key.
type etcdKey struct {
	Value string
	Lease int64 // under which it was written
}

// Keys returns what etcd has below ringlet/, but for the keys with which hosts try whether writes work.
func (e *ETCD) Keys() (map[string]etcdKey, error) {
	out, err := e.try("get", "--prefix", "ringlet/", "--write-out", "json")
	if err != nil {
		return nil, err
	}
	var got struct {
		Kvs []struct {
			Key, Value []byte
			Lease      int64
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		return nil, err
	}
	all := map[string]etcdKey{}
	for _, kv := range got.Kvs {
		if key := string(kv.Key); !strings.HasPrefix(key, "ringlet/.initlock/") {
			all[key] = etcdKey{string(kv.Value), kv.Lease}
		}
	}
	return all, nil
}

// Revoke has a lease end.
func (e *ETCD) Revoke(lease int64) {
	e.t.Helper()
	e.Ctl("lease", "revoke", fmt.Sprintf("%x", lease))
}

// Remaining returns how long a lease lasts still, negative if it has ended, and which keys are under it.
func (e *ETCD) Remaining(lease int64) (time.Duration, []string) {
	e.t.Helper()
	var got struct {
		TTL  int64
		Keys [][]byte
	}
	if err := json.Unmarshal([]byte(e.Ctl("lease", "timetolive", "--keys", fmt.Sprintf("%x", lease), "--write-out", "json")), &got); err != nil {
		e.t.Fatal(err)
	}
	var keys []string
	for _, k := range got.Keys {
		keys = append(keys, string(k))
	}
	return time.Duration(got.TTL) * time.Second, keys
}

// inETCD returns what etcd is to have, as ringlet kv get --recursive ringlet/ shows it on an engine: by key the value. A service
// has a key for each of its hosts there. Keys of hosts that have no etcd set are left out.
func (e *Engine) inETCD(without []*Engine) (map[string]string, error) {
	out, err := e.TryRinglet("kv", "get", "--recursive", "ringlet/", "--output", "json")
	if err != nil {
		return nil, err
	}
	var items []directoryItem
	if err := json.Unmarshal([]byte(out), &items); err != nil {
		return nil, err
	}
	nodes := map[string]string{} // by ID
	for _, i := range items {
		if key, its := strings.CutPrefix(i.Key, "ringlet/state/nodes/v1/"); its {
			_, nodes[i.Owner], _ = strings.Cut(key, "/")
		}
	}
	all := map[string]string{}
	for _, i := range items {
		key := i.Key
		if slices.ContainsFunc(without, func(w *Engine) bool { return w.Name == nodes[i.Owner] }) {
			continue
		}
		if strings.HasPrefix(key, "ringlet/state/services/") && i.Owner != "foreign" {
			key += "/" + nodes[i.Owner]
		}
		if all[key] != "" {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		all[key] = flat(i.Value)
	}
	return all, nil
}

// flat is JSON in one line.
func flat(value json.RawMessage) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return string(value)
	}
	return strings.TrimSpace(b.String())
}

// differs returns a key that etcd and an engine have not the same of; empty if there is none.
func (e *ETCD) differs(on *Engine) string {
	there, err := e.Keys()
	if err != nil {
		return err.Error()
	}
	want, err := on.inETCD(e.Without)
	if err != nil {
		return err.Error()
	}
	for key := range maps.Keys(there) {
		if _, shown := want[key]; !shown {
			return on.Name + " does not show " + key
		}
	}
	for key, value := range want {
		if got, has := there[key]; !has || flat(json.RawMessage(got.Value)) != value {
			return fmt.Sprintf("%s shows %s as %s, etcd has %q", on.Name, key, value, got.Value)
		}
	}
	return ""
}

// Mirrors waits until etcd has what all the engines show, and returns how long that took. More than limit fails the test.
func (e *ETCD) Mirrors(limit time.Duration, what string, engines ...*Engine) time.Duration {
	e.t.Helper()
	if len(engines) == 0 {
		e.t.Fatal("no engines")
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		wrong := ""
		for _, on := range engines {
			if wrong = e.differs(on); wrong != "" {
				break
			}
		}
		took := time.Since(begun)
		switch {
		case wrong == "":
			fmt.Fprintf(e.t.Output(), "%s: etcd has the same as %d hosts after %v\n", what, len(engines), took.Round(time.Millisecond))
			return took
		case took > limit:
			e.t.Fatalf("%s: not the same within %v: %s", what, limit, wrong)
		}
	}
}
