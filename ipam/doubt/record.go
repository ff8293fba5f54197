package doubt

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
)

// Bucket is where the database has since when each address is in doubt, and under [keyLoss] when a list last showed what an
// earlier database must have known.
const Bucket = "late"

const (
	keyLoss = "earlier" // of a length that no address has

	formatRecord = 1
)

// save writes since when an address is in doubt, and deletes the key where since is zero. An earlier release counted the
// releases that may come, and reads a number before the time.
func (d *Doubts) save(a netip.Addr, since time.Time) {
	if since.IsZero() {
		d.out.Delete(Bucket, string(a.AsSlice()))
		return
	}
	b := codec.Uint([]byte{formatRecord}, 1)
	d.out.Put(Bucket, string(a.AsSlice()), binary.BigEndian.AppendUint64(b, uint64(since.UnixNano())))
}

// saveLoss writes the time of the loss, and deletes the key once it says nothing any more.
func (d *Doubts) saveLoss() {
	if !d.HasLoss() {
		d.out.Delete(Bucket, keyLoss)
		return
	}
	d.out.Put(Bucket, keyLoss, binary.BigEndian.AppendUint64([]byte{formatRecord}, uint64(d.lost.UnixNano())))
}

// Restore takes in a record of [Bucket].
func (d *Doubts) Restore(key, value []byte) error {
	isLoss := string(key) == keyLoss
	a, ok := netip.AddrFromSlice(key)
	if !isLoss && !ok {
		return fmt.Errorf("%w: its key", codec.ErrCorrupt)
	}
	r := codec.NewReader(value)
	r.Format(formatRecord, "a doubt")
	if !isLoss && r.Uint("number of late releases") == 0 {
		r.Fail("number of late releases")
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(r.Fixed("time of a doubt", 8))))
	if err := r.Done(); err != nil {
		return err
	}
	if isLoss {
		d.lost = at
	} else {
		d.at[a] = doubt{since: at}
	}
	return nil
}
