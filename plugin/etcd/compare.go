package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

// written is when a key was written, and by which revision of etcd.
type written struct {
	at       time.Time
	revision int64
}

// concerns reports whether a change in the directory may change what this host
// keeps: else each host would write for the changes of all.
func (s *session) concerns(key string, origin peer.ID) bool {
	switch origin {
	case s.cfg.Self:
		return true
	case replica.Foreign:
		return false
	}
	value, _ := s.cfg.Directory.Mirrored(key)
	return value != nil || origin == peer.None && s.cfg.Directory.Voice()
}

// changed notes that keys have changed in the directory.
func (s *session) changed(keys []string) {
	if len(keys) == 0 {
		s.behind = true
	}
	for _, key := range keys {
		s.due[key] = time.Time{}
	}
}

// compare reads all keys in etcd, and notes those that are not as they have to
// be. It returns the revision that it has read.
func (s *session) compare(ctx context.Context) (revision int64, err error) {
	s.behind = false
	s.voice = s.cfg.Directory.Voice()
	want := map[string]bool{}
	for _, key := range s.cfg.Directory.Mirror() {
		want[key] = true
	}
	foreign := map[string]bool{}
	end := clientv3.GetPrefixRangeEnd("ringlet/")
	for from, more := "ringlet/", true; more; {
		options := []clientv3.OpOption{
			clientv3.WithRange(end), clientv3.WithLimit(page),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend),
		}
		if revision > 0 {
			options = append(options, clientv3.WithRev(revision))
		}
		one, cancel := bounded(ctx)
		got, err := s.client.Get(one, from, options...)
		cancel()
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			key := string(kv.Key)
			from = key + "\x00"
			if label, ok := labelOf(key); !ok || label != s.label {
				foreign[key] = ok && s.foreign(key, kv.Value)
				continue
			}
			switch value, others := s.cfg.Directory.Mirrored(key); {
			case value != nil && string(value) == string(kv.Value) && kv.Lease == int64(s.lease):
				delete(want, key)
			case value != nil, !others && kv.Lease == int64(s.lease):
				s.due[key] = time.Time{}
			}
		}
		more = got.More
	}
	for key := range want {
		s.due[key] = time.Time{}
	}
	s.forgetForeign(foreign)
	return revision, nil
}

// foreign shows a key of another cluster.
func (s *session) foreign(key string, value []byte) bool {
	ok := s.cfg.Directory.SetForeign(key, value)
	if !ok && s.room {
		s.cfg.Logger.Warn("keys of other clusters left out: there are too many, or their values are too long")
	}
	s.room = s.room && ok
	return ok
}

// seenOutside notes that somebody has written or deleted a key in etcd.
func (s *session) seenOutside(kv *mvccpb.KeyValue, deleted bool) {
	key := string(kv.Key)
	switch label, ok := labelOf(key); {
	case !ok:
		return
	case label != s.label:
		if deleted {
			s.cfg.Directory.SetForeign(key, nil)
		} else {
			s.foreign(key, kv.Value)
		}
		return
	}
	last, own := s.wrote[key]
	if own && kv.ModRevision <= last.revision {
		return // this host wrote it, then or later
	}
	value, others := s.cfg.Directory.Mirrored(key)
	its := !deleted && kv.Lease == int64(s.lease)
	if value == nil && (others || !its) || value != nil && its && string(kv.Value) == string(value) {
		return
	}
	at := time.Time{}
	if own {
		at = last.at.Add(putBackEvery)
	}
	if due, there := s.due[key]; !there || at.Before(due) {
		s.due[key] = at
	}
}

// next is when there is something to do.
func (s *session) next() time.Duration {
	at := time.Now().Add(lookEvery)
	for _, due := range s.due {
		if due.Before(at) {
			at = due
		}
	}
	return max(time.Until(at), 0)
}

// look asks etcd for a sign of life, and does what is due now and then.
func (s *session) look(ctx context.Context, claim string) error {
	now := time.Now()
	for key, w := range s.wrote {
		if now.Sub(w.at) > 2*putBackEvery {
			delete(s.wrote, key)
		}
	}
	if _, id := s.cfg.Directory.Of(); id != s.id {
		return errAgain
	}
	if err := s.claim(ctx, claim); err != nil {
		return err
	}
	renew := now.After(s.renew)
	switch lives, err := s.lives(ctx); {
	case err != nil:
		return err
	case !lives:
		return errAgain
	case renew:
		if err := s.grant(ctx); err != nil {
			return err
		}
	}
	if renew || s.behind || s.voice != s.cfg.Directory.Voice() {
		_, err := s.compare(ctx)
		return err
	}
	return nil
}

// lives reports whether etcd has this host's lease. Without it etcd lost its data, or somebody revoked the lease. The claim alone does
// not tell: another host may have been first to put it there again. In an etcd that begins at its first revision anew the watch waits
// for one that is far away, so that the session is to begin anew, too.
func (s *session) lives(ctx context.Context) (bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	left, err := s.client.TimeToLive(ctx, s.lease)
	return err == nil && left.TTL > 0, err
}

// flush writes the keys that are due.
func (s *session) flush(ctx context.Context, claim string) error {
	for {
		ops, keys := s.ops(time.Now())
		if len(keys) == 0 {
			return nil
		}
		if len(ops) > 0 {
			if err := s.write(ctx, claim, ops, keys); err != nil {
				return err
			}
		}
		for _, key := range keys {
			delete(s.due, key)
		}
	}
}

// ops returns the next steps to write, for which keys.
func (s *session) ops(now time.Time) (ops []clientv3.Op, keys []string) {
	size := 0
	for key, due := range s.due {
		if due.After(now) {
			continue
		}
		if len(ops) == maxOps || size > maxBytes {
			break
		}
		keys = append(keys, key)
		switch value, others := s.cfg.Directory.Mirrored(key); {
		case value != nil:
			ops = append(ops, clientv3.OpPut(key, string(value), clientv3.WithLease(s.lease)))
			size += len(key) + len(value)
		case !others: // only what is this host's
			its := clientv3.Compare(clientv3.LeaseValue(key), "=", s.lease)
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{its}, []clientv3.Op{clientv3.OpDelete(key)}, nil))
		}
	}
	return ops, keys
}

// write writes, if the label is still this cluster's.
func (s *session) write(ctx context.Context, claim string, ops []clientv3.Op, keys []string) error {
	for range 3 {
		one, cancel := bounded(ctx)
		done, err := s.client.Txn(one).If(s.guard).Then(ops...).Commit()
		cancel()
		switch {
		case err == nil && done.Succeeded:
			w := written{time.Now(), done.Header.Revision}
			for _, key := range keys {
				s.wrote[key] = w
			}
			return nil
		case err == nil:
			err = s.claim(ctx, claim)
		}
		if err != nil {
			return err
		}
	}
	return errAgain
}
