package engine

import (
	"encoding/binary"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// Bucket is where a peer keeps the networks of its host, by their IDs.
const Bucket = "network"

// formatRecord begins each record.
const formatRecord = 1

// save writes that this host has a network, and when a part of it was last asked for. The number before the time counts
// where no list does: requests that were no replays, less releases.
func (e *Engine) save(n *Network) {
	b := append(e.out.Buffer(), n.ID()...)
	split := len(b)
	b = codec.Uint(append(b, formatRecord), uint64(max(n.open, 1)))
	b = binary.BigEndian.AppendUint64(b, uint64(n.asked.At.UnixNano()))
	e.out.PutBuffer(Bucket, b, split)
}

// Restore takes in a record.
func (e *Engine) Restore(key, value []byte) error {
	id, err := poolid.Parse(poolid.ID(key))
	if err != nil {
		return err
	}
	r := codec.NewReader(value)
	r.Format(formatRecord, "a network")
	count := r.Uint("number of networks")
	if count == 0 || count > 1<<20 {
		r.Fail("number of networks")
	}
	n := &Network{Network: id, open: int(count)}
	if r.Rest() > 0 { // one byte or two were all before it was written
		n.asked.At = time.Unix(0, int64(binary.BigEndian.Uint64(r.Fixed("time of a network", 8))))
	}
	if r.Rest() > 0 && r.Byte("use of a network's pool") != 1 { // an earlier release said so that the use was decided
		r.Fail("use of a network's pool")
	}
	if err := r.Done(); err != nil {
		return err
	}
	e.add(n)
	return nil
}
