package boltfile

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// However pages are read, each is the one that was asked for.
func TestPageReader(t *testing.T) {
	const size, end = 1024, 1000
	image := make([]byte, size*end)
	for i := range image {
		image[i] = byte(i / size * 7)
	}
	rnd := testRand(t)
	r := pageReader{file: bytes.NewReader(image), size: size, end: end}
	at := uint64(0)
	for range 10_000 {
		switch rnd.IntN(20) {
		case 0:
			at = rnd.Uint64N(end)
		case 1:
			at -= min(at, rnd.Uint64N(3))
		}
		count := min(1+rnd.Uint64N(3)*rnd.Uint64N(200)/199, end-at)
		got, err := r.read(at, count)
		if err != nil || !bytes.Equal(got, image[at*size:(at+count)*size]) {
			t.Fatalf("%d pages from page %d on are not those of the file (%v)", count, at, err)
		}
		at = (at + count) % end
	}
	if most := readAhead / size * 2; cap(r.buf) > most*size {
		t.Errorf("it keeps %d bytes", cap(r.buf))
	}
}

// failingAt is a file whose bytes cannot be read from that one on.
type failingAt struct {
	image []byte
	at    int64
	err   error
}

func (f failingAt) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > f.at {
		return 0, f.err
	}
	return bytes.NewReader(f.image).ReadAt(b, off)
}

// A disk that fails, or a file that gets shorter meanwhile, is no damage: the file may be sound.
func TestCheckUnreadable(t *testing.T) {
	image := madeFile(t)
	meta, list, err := readMeta(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	size := int(meta.u32(offPageSize))
	failed := errors.New("the disk fails")
	found := 0
	for page := range int(meta.u64(offEndPage)) {
		for _, cause := range []error{failed, io.EOF} {
			f := failingAt{image, int64(page * size), cause}
			switch err := (&Trees{trees: newTrees(f, meta, list)}).checkTrees(); {
			case isDamage(err) || err != nil && !errors.Is(err, cause):
				t.Errorf("page %d: got %v, want %v", page, err, cause)
			case err != nil:
				found++
			}
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}
