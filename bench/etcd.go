package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcd is a running etcd of one node, in which every address is a key.
type etcd struct {
	*process
	client0 *clientv3.Client
}

// find returns a program that is installed, or unpacked in the directory of peers, or nothing.
func (b *bench) find(name string, places ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range places {
		for _, root := range []string{"/", b.peers} {
			if root == "" {
				continue
			}
			if path, err := exec.LookPath(filepath.Join(root, dir, name)); err == nil {
				return path
			}
		}
	}
	return ""
}

// etcd starts etcd, or returns nil where there is none.
func (b *bench) etcd() (*etcd, error) {
	path := b.find("etcd", "usr/bin")
	if path == "" {
		b.leaveOut("etcd, which is not installed (Debian's etcd-server, or -peers DIR)")
		return nil, nil
	}
	dir, err := b.sub("etcd")
	if err != nil {
		return nil, err
	}
	urls := make([]string, 2)
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is there at once
		if err != nil {
			return nil, err
		}
		urls[i] = "http://" + l.Addr().String()
		_ = l.Close()
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: urls[:1], DialTimeout: startLimit, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	p, err := b.start(dir, func() error {
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err := c.Get(ctx, "ready")
		return err
	}, path, []string{
		"--name", "one", "--data-dir", filepath.Join(dir, "data"), "--log-level", "error", "--listen-client-urls", urls[0],
		"--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1],
		"--initial-cluster", "one=" + urls[1],
	})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &etcd{p, c}, nil
}

func (e *etcd) stop() {
	_ = e.client0.Close()
	e.process.stop()
}

// ask returns a context for one question.
func ask() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), startLimit)
}

// keys returns a client that creates a key that must be absent, and deletes it, in turn.
func (e *etcd) keys(i int) func() error {
	n, held := 0, ""
	return func() error {
		ctx, cancel := ask()
		defer cancel()
		if held != "" {
			key := held
			held = ""
			_, err := e.client0.Delete(ctx, key)
			return err
		}
		n++
		key := fmt.Sprintf("/ringlet/10.50.%d.%d", i, n%256)
		r, err := e.client0.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, "container")).Commit()
		switch {
		case err != nil:
			return err
		case !r.Succeeded:
			return errFull
		}
		held = key
		return nil
	}
}

// A block has what Calico's has in JSON of 64 addresses and their holders.
const (
	blockAddresses = 64
	blockSize      = 4_800 // in bytes
)

// block returns a client that reads a block and writes it changed, if nobody has written it meanwhile, which is how
// Calico allocates an address, and how it frees one. Else it tries again.
func (e *etcd) block(name string, i int) func() error {
	key, n := "/ringlet/block/"+name, 0
	return func() error {
		ctx, cancel := ask()
		defer cancel()
		n++
		for {
			was, err := e.client0.Get(ctx, key)
			if err != nil {
				return err
			}
			block, revision := make([]byte, blockSize), int64(0)
			if len(was.Kvs) > 0 {
				copy(block, was.Kvs[0].Value)
				revision = was.Kvs[0].ModRevision
			}
			at := n % blockAddresses * (blockSize / blockAddresses)
			binary.BigEndian.PutUint64(block[at:], uint64(i))
			binary.BigEndian.PutUint64(block[at+8:], uint64(n))
			r, err := e.client0.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, string(block))).Commit()
			if err != nil || r.Succeeded {
				return err
			}
		}
	}
}
