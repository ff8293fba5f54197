package etcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// page is how many keys are read at a time.
	page = 1000
	// maxOps and maxBytes are what one transaction writes at most: etcd takes 128
	// steps and 1.5 MiB unless it is told otherwise.
	maxOps   = 100
	maxBytes = 512 << 10
)

// session is one connection to etcd, with what this host knows of it. It belongs
// to one goroutine.
type session struct {
	*Mirror
	client    *clientv3.Client
	label, id string // of the cluster
	guard     clientv3.Cmp
	voice     bool

	due    map[string]time.Time // by key: when to look after it
	wrote  map[string]written   // the last keys that were written
	room   bool                 // for foreign keys, as far as is known
	renew  time.Time            // when the lease is due
	behind bool                 // all keys are to be compared
}

// session connects, and mirrors until something fails.
func (m *Mirror) session(ctx context.Context) error {
	label, id := m.cfg.Directory.Of()
	if id == "" {
		return errAgain // this host is in no cluster yet
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing follows from its error
	claim, err := json.Marshal(directory.Cluster{ID: id})
	if err != nil {
		return err
	}
	s := &session{
		Mirror: m, client: client, label: label, id: id, due: map[string]time.Time{}, wrote: map[string]written{}, room: true,
		guard: clientv3.Compare(clientv3.Value(directory.ClusterKey(label)), "=", string(claim)),
	}
	err = s.run(ctx, string(claim))
	if errors.As(err, new(labelError)) {
		s.withdraw(ctx)
	}
	return m.explain(ctx, err)
}

// run mirrors until something fails.
func (s *session) run(ctx context.Context, claim string) error {
	if err := s.free(ctx); err != nil {
		return err
	}
	if err := s.prove(ctx); err != nil {
		return err
	}
	if err := s.grant(ctx); err != nil {
		return err
	}
	if err := s.claim(ctx, claim); err != nil {
		return err
	}
	changes := s.follow(ctx, s.cfg.Directory.Last())
	revision, err := s.compare(ctx)
	if err != nil {
		return err
	}
	watch := s.client.Watch(clientv3.WithRequireLeader(ctx), "ringlet/", clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if err := s.flush(ctx, claim); err != nil {
			return err
		}
		if len(s.due) == 0 {
			s.seen = time.Now()
			s.up.Store(true)
			s.cfg.Report(nil)
		}
		next := time.NewTimer(s.next())
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-next.C:
		case c := <-changes:
			s.changed(c)
		case w, open := <-watch:
			if err = w.Err(); err == nil && !open {
				err = errAgain
			}
			for _, e := range w.Events {
				s.seenOutside(e.Kv, e.Type == clientv3.EventTypeDelete)
			}
		case <-look.C:
			err = s.look(ctx, claim)
		}
		next.Stop()
		if err != nil {
			return err
		}
	}
}

// bounded gives etcd a time for its answer.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, answerTime)
}

// free returns an error if another cluster has the label, or had it until a moment ago. It comes before all that
// writes.
func (s *session) free(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	got, err := s.client.Get(ctx, directory.ClusterKey(s.label))
	switch {
	case err != nil:
		return err
	case len(got.Kvs) > 0:
		s.freeSince, s.refused = time.Time{}, s.mine(got.Kvs[0].Value)
	case s.refused == nil:
	case s.freeSince.IsZero():
		s.freeSince = time.Now()
	case time.Since(s.freeSince) >= takeAfter:
		s.refused = nil
	}
	return s.refused
}

// mine returns an error if a claim is another cluster's.
func (s *session) mine(claim []byte) error {
	var c directory.Cluster
	if err := json.Unmarshal(claim, &c); err == nil && c.ID != s.id && len(c.ID) == len(s.id) {
		return labelError{label: s.label, other: c.ID}
	}
	return nil
}

// prove writes a key of no use, which shows that writes work, and removes it. If
// this host dies meanwhile, its lease does.
func (s *session) prove(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	got, err := s.client.Grant(ctx, int64(proofLease/time.Second))
	if err != nil {
		return err
	}
	key := fmt.Sprintf("ringlet/.initlock/%s/%x", rand.Text(), got.ID)
	if _, err := s.client.Put(ctx, key, "", clientv3.WithLease(got.ID)); err != nil {
		return err
	}
	_, err = s.client.Revoke(ctx, got.ID)
	return err
}

// grant makes this host's lease, or renews the one that is there.
func (s *session) grant(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	s.renew = time.Now().Add(s.cfg.lease / 3)
	if _, err := s.client.KeepAliveOnce(ctx, s.lease); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	_, err := clientv3.RetryLeaseClient(s.client).LeaseGrant(ctx,
		&pb.LeaseGrantRequest{TTL: int64(s.cfg.lease / time.Second), ID: int64(s.lease)})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) {
		return nil
	}
	return rpctypes.Error(err)
}

// claim has the label, unless another cluster has it. A claim that nobody can read is replaced.
func (s *session) claim(ctx context.Context, claim string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := directory.ClusterKey(s.label)
	for range 3 {
		got, err := s.client.Get(ctx, key)
		if err != nil {
			return err
		}
		revision := int64(0)
		if len(got.Kvs) > 0 {
			if string(got.Kvs[0].Value) == claim {
				return nil
			}
			if err := s.mine(got.Kvs[0].Value); err != nil {
				return err
			}
			revision = got.Kvs[0].ModRevision
		}
		done, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, claim, clientv3.WithLease(s.lease))).Commit()
		if err != nil || done.Succeeded {
			return err
		}
	}
	return errAgain
}

// withdraw removes all that this host has written: the label is another cluster's.
func (s *session) withdraw(ctx context.Context) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, _ = s.client.Revoke(ctx, s.lease) // else it ends by itself
}

// follow returns the lists of keys that change in the directory from now on; an
// empty one after a gap.
func (s *session) follow(ctx context.Context, after events.ID) <-chan []string {
	out := make(chan []string)
	reader := s.cfg.Directory.Watch(after)
	go func() { // ends with the session
		for ctx.Err() == nil {
			list, _, err := reader.Next(ctx)
			keys := make([]string, 0, len(list))
			if _, gap := errors.AsType[*events.GapError](err); !gap {
				for _, e := range list {
					if key := s.cfg.Directory.Outside(e.Key); s.concerns(key, e.Origin) {
						keys = append(keys, key)
					}
				}
				if len(keys) == 0 {
					continue
				}
			}
			select {
			case out <- keys:
			case <-ctx.Done():
			}
		}
	}()
	return out
}
