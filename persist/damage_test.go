package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// openDamaged opens a file with the given bytes as a program would, and demands that the content is exactly that of
// step n, or that the file was kept as it is and said to be damaged. It reports which.
func openDamaged(t *testing.T, h *history, image []byte, n uint64) (found bool) {
	t.Helper()
	path := dbPath(t)
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	s, damage, err := OpenOrReplace(hastyConfig(path))
	if err != nil {
		t.Errorf("got error %v, want a store", err)
		return false
	}
	defer s.Close()
	got, err := loadContent(s)
	if err != nil {
		t.Errorf("load: %v", err)
		return false
	}
	if damage == nil {
		if err := h.check(got, n, n); err != nil {
			t.Errorf("silently wrong: %v", err)
		}
		// It must also be good to go on with.
		const more = 8
		for i := range uint64(more) {
			if err := commitStep(s, n+1+i); err != nil {
				t.Errorf("commit %d after it: %v", i+1, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := h.checkDatabase(path, n+more, n+more); err != nil {
			t.Errorf("after %d commits: %v", more, err)
		}
		return false
	}
	if len(got) != 0 {
		t.Errorf("the new store holds %d records, want none", len(got))
	}
	if !errors.Is(damage.Cause, ErrDamaged) || !strings.Contains(damage.String(), damage.Kept) {
		t.Errorf("got damage %v, want ErrDamaged and the name %s", damage, damage.Kept)
	}
	if kept, err := os.ReadFile(damage.Kept); err != nil || !bytes.Equal(kept, image) {
		t.Errorf("the kept file is not the damaged one (%v)", err)
	}
	return true
}

func TestTruncated(t *testing.T) {
	const n = 60
	image := readFile(t, madeDatabase(t, n))
	h := newHistory()
	page := os.Getpagesize()
	for _, size := range []int{0, 1, 100, page - 1, page, page + 80, 2 * page, 3*page + 17, 8 * page, len(image) / 2} {
		if !openDamaged(t, h, image[:size], n) {
			t.Errorf("a file cut to %d of %d bytes passed", size, len(image))
		}
	}
	if openDamaged(t, h, image, n) {
		t.Error("the whole file did not pass")
	}
}

func TestNoDatabase(t *testing.T) {
	empty := dbPath(t)
	db, err := bbolt.Open(empty, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	foreign := dbPath(t)
	if db, err = bbolt.Open(foreign, 0o600, &bbolt.Options{NoFreelistSync: true}); err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("things"))
		return errors.Join(err, b.Put([]byte("k"), []byte("v")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string][]byte{
		"text": []byte(strings.Repeat("this is no database\n", 1000)), "zeros": make([]byte, 1<<16),
		"bbolt without content": readFile(t, empty), "bbolt of another program": readFile(t, foreign),
	} {
		t.Run(name, func(t *testing.T) {
			if !openDamaged(t, newHistory(), image, 0) {
				t.Error("it passed")
			}
		})
	}
}

// Random bits of the file change. Half of the flips aim at the first bytes of pages, where bbolt's structure is.
func TestBitFlips(t *testing.T) {
	const n = 40
	flips := 250
	if testing.Short() {
		flips = 60
	}
	rnd := testRand(t)
	image := readFile(t, madeDatabase(t, n))
	h := newHistory()
	found := 0
	for range flips {
		bit := rnd.IntN(len(image) * 8)
		if rnd.IntN(2) == 0 {
			page := os.Getpagesize()
			bit = rnd.IntN(len(image)/page)*page*8 + rnd.IntN(80*8)
		}
		image[bit/8] ^= 1 << (bit % 8)
		if openDamaged(t, h, image, n) {
			found++
		}
		if t.Failed() {
			t.Fatalf("bit %d of byte %d", bit%8, bit/8)
		}
		image[bit/8] ^= 1 << (bit % 8)
	}
	t.Logf("%d flips: %d found, %d without effect", flips, found, flips-found)
	if found == 0 {
		t.Error("nothing was found")
	}
}

// Whatever is in the trees ends the check with an error, if it ends it, and not the process.
func TestGarbage(t *testing.T) {
	rnd := testRand(t)
	image := readFile(t, madeDatabase(t, 40))
	page := os.Getpagesize()
	found := 0
	for range 5000 {
		spoiled := bytes.Clone(image)
		for range 1 + rnd.IntN(4) {
			at := (2+rnd.IntN(len(image)/page-2))*page + rnd.IntN(160)
			if rnd.IntN(4) == 0 {
				at = 2*page + rnd.IntN(len(image)-3*page)
			}
			word := []uint64{0, 1, 1 << 31, 1<<32 - 1, 1<<64 - 1, rnd.Uint64(), rnd.Uint64N(uint64(len(image) / page))}[rnd.IntN(7)]
			copy(spoiled[at:], binary.NativeEndian.AppendUint64(nil, word)[:1<<rnd.IntN(4)])
		}
		err := checkImage(spoiled)
		if errors.Is(err, ErrDamaged) {
			found++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 5000 found", found)
	if found < 1000 {
		t.Error("what was changed seems not to be read")
	}
}

// Every bit of the newer meta page, in process: bbolt itself would fall back to the commit before.
func TestMetaPageFlips(t *testing.T) {
	path := madeDatabase(t, 40)
	image := readFile(t, path)
	if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); err != nil {
		t.Fatal(err)
	}
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	at := metaStart
	if pages[1].txid() > pages[0].txid() {
		at += os.Getpagesize()
	}
	for bit := range metaSize * 8 {
		image[at+bit/8] ^= 1 << (bit % 8)
		if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: got %v, want ErrDamaged", bit, err)
		}
		image[at+bit/8] ^= 1 << (bit % 8)
	}
	clear(image[at : at+sector])
	if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); !errors.Is(err, ErrDamaged) {
		t.Errorf("no page: got %v, want ErrDamaged", err)
	}
}

// Of a meta page that a power cut tore, the list of free pages is one before, one after, or bytes of both.
func TestTornListOfMetaPage(t *testing.T) {
	image := readFile(t, madeDatabase(t, 40))
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	good, torn := pages[0], 1
	if pages[1].txid() > good.txid() {
		good, torn = pages[1], 0
	}
	at := torn*os.Getpagesize() + metaStart
	put := binary.NativeEndian.PutUint64
	put(image[at+offTxid:], good.txid()+1)
	put(image[at+offRoot:], 7)
	for list, whole := range map[uint64]bool{
		5: true, noFreeList: true, ^uint64(0xff) | 5: true, 0xff00 | 5: true, 0xff << 32: true,
		0x0100 | 5: false, 1 << 63: false, 0xfe0000: false,
	} {
		put(image[at+offFreeList:], list)
		_, _, err := readMeta(bytes.NewReader(image), int64(len(image)))
		if whole && err != nil || !whole && !errors.Is(err, ErrDamaged) {
			t.Errorf("list %#x: got %v, want damage: %t", list, err, !whole)
		}
	}
}

// Every bit of the list of free pages, in process: bbolt would hand out pages that are in use, or behind the end.
func TestFreeListFlips(t *testing.T) {
	path := madeDatabase(t, 40)
	image := readFile(t, path)
	at, ids := freePages(t, image)
	if len(ids) < 5 {
		t.Fatalf("the list has %d pages, too few to prove anything", len(ids))
	}
	t.Logf("%d free pages of %d", len(ids), len(image)/os.Getpagesize())
	for bit := range (pageHeader + 8*len(ids)) * 8 {
		image[at+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckFile(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d of byte %d: got %v, want ErrDamaged", bit%8, bit/8, err)
		}
		image[at+bit/8] ^= 1 << (bit % 8)
	}
}

// A list of free pages that does not fit its file is found before bbolt reads it.
func TestFreeList(t *testing.T) {
	image := readFile(t, madeDatabase(t, 40))
	at, ids := freePages(t, image)
	page := uint64(os.Getpagesize())
	list, pages := uint64(at)/page, uint64(len(image))/page
	put16, put := binary.NativeEndian.PutUint16, binary.NativeEndian.PutUint64
	for name, tt := range map[string]struct {
		list   uint64
		change func(head, ids []byte)
	}{
		"behind the end":       {list: pages},
		"of another page":      {list: list + 1},
		"longer than its page": {list, func(head, _ []byte) { put16(head[10:], uint16(page/8-1)) }},
		"longer than memory":   {list, func(head, ids []byte) { put16(head[10:], manyFree); put(ids, 1<<61) }},
		"that ends behind the end": {list, func(head, _ []byte) {
			put16(head[10:], 0)
			binary.NativeEndian.PutUint32(head[12:], uint32(pages-list))
		}},
		"with a meta page":  {list, func(_, ids []byte) { put(ids, 1) }},
		"with a page twice": {list, func(_, ids []byte) { copy(ids[8:], ids[:8]) }},
		"with the end page": {list, func(_, b []byte) { put(b[8*len(ids)-8:], pages) }},
		"with itself":       {list, func(head, ids []byte) { put16(head[10:], 1); put(ids, list) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(image)
			if tt.change != nil {
				tt.change(b[at:], b[at+pageHeader:])
			}
			if _, err := readFreeList(bytes.NewReader(b), tt.list, page, pages); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
		})
	}
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages); err != nil {
		t.Errorf("the list itself: %v", err)
	}
}

// A list of 65,535 pages or more says their number elsewhere, as bbolt writes it.
func TestLongFreeList(t *testing.T) {
	const list, page, free = 2, 4096, manyFree
	const more = (pageHeader + 8 + 8*free) / page
	image := make([]byte, (list+1+more)*page)
	head := image[list*page:]
	binary.NativeEndian.PutUint64(head, list)
	binary.NativeEndian.PutUint16(head[8:], freeListKind)
	binary.NativeEndian.PutUint16(head[10:], manyFree)
	binary.NativeEndian.PutUint32(head[12:], more)
	binary.NativeEndian.PutUint64(head[pageHeader:], free)
	for i := range free {
		binary.NativeEndian.PutUint64(head[pageHeader+8+8*i:], uint64(list+1+more+i))
	}
	const pages = list + 1 + more + free
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages); err != nil {
		t.Error(err)
	}
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages-1); !errors.Is(err, ErrDamaged) {
		t.Errorf("the last page is behind the end: got %v, want ErrDamaged", err)
	}
}

// freePages returns where the list of free pages lies in a file, 0 if there is none, and what is in it.
func freePages(t *testing.T, image []byte) (at int, ids []uint64) {
	t.Helper()
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	last := pages[0]
	if pages[1].txid() > last.txid() {
		last = pages[1]
	}
	list := last.u64(offFreeList)
	if list == noFreeList {
		return 0, nil
	}
	at = int(list) * os.Getpagesize()
	for i := range int(binary.NativeEndian.Uint16(image[at+10:])) {
		ids = append(ids, binary.NativeEndian.Uint64(image[at+pageHeader+8*i:]))
	}
	return at, ids
}

// What a record check cannot see, the guard sees: records that are missing or of another time.
func TestGuard(t *testing.T) {
	for name, change := range map[string]func(b *bbolt.Bucket, key, stored []byte) error{
		"missing": func(b *bbolt.Bucket, key, _ []byte) error { return b.Delete(key) },
		"of another time": func(b *bbolt.Bucket, key, _ []byte) error {
			old, _ := newSealer("held").seal(nil, key, []byte("old"))
			return b.Put(key, old)
		},
		"added": func(b *bbolt.Bucket, _, _ []byte) error {
			more, _ := newSealer("held").seal(nil, []byte("more"), []byte("new"))
			return b.Put([]byte("more"), more)
		},
		"too short": func(b *bbolt.Bucket, key, _ []byte) error { return b.Put(key, []byte("abc")) },
		"changed": func(b *bbolt.Bucket, key, stored []byte) error {
			stored = bytes.Clone(stored)
			stored[0]++
			return b.Put(key, stored)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := madeDatabase(t, 10)
			s := mustOpen(t, testConfig(path))
			// The guard is brought to the new transaction, so that only what it says of the records can be wrong.
			err := s.db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("held"))
				key, stored := b.Cursor().First()
				if err := change(b, key, stored); err != nil {
					return err
				}
				g := s.guard
				g.txid = uint64(tx.ID())
				value, _ := newSealer(metaBucket).seal(nil, []byte(guardKey), g.appendTo(nil))
				return tx.Bucket([]byte(metaBucket)).Put([]byte(guardKey), value)
			})
			if err != nil {
				t.Fatal(err)
			}
			s.forget() // what it was before
			if _, err := loadContent(s); !errors.Is(err, ErrDamaged) {
				t.Errorf("load: got %v, want ErrDamaged", err)
			}
			s.Close()
			if _, err := Open(testConfig(path)); !errors.Is(err, ErrDamaged) {
				t.Errorf("open: got %v, want ErrDamaged", err)
			}
			if err := CheckFile(path); !errors.Is(err, ErrDamaged) {
				t.Errorf("check: got %v, want ErrDamaged", err)
			}
		})
	}
}

// What keeps a healthy file from being read must not cost the file its place.
func TestNotDamage(t *testing.T) {
	path := madeDatabase(t, 5)
	dir := filepath.Join(t.TempDir(), "a directory")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a directory":              dir,
		"a path through that file": filepath.Join(path, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			_, damage, err := OpenOrReplace(testConfig(path))
			if err == nil || errors.Is(err, ErrDamaged) || damage != nil {
				t.Errorf("got %v, %v, want another error", damage, err)
			}
		})
	}
	t.Run("file without permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may read everything")
		}
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		_, damage, err := OpenOrReplace(testConfig(path))
		if err == nil || !strings.Contains(err.Error(), "permission denied") || errors.Is(err, ErrDamaged) || damage != nil {
			t.Errorf("got %v, %v, want the missing permission", damage, err)
		}
		if err := os.Chmod(path, fileMode); err != nil {
			t.Fatal(err)
		}
	})
}

// A disk that cannot read a part of the file does not end the process that checks it, and costs the file nothing.
func TestUnreadable(t *testing.T) {
	path := madeDatabase(t, 40)
	image := readFile(t, path)
	dir := t.TempDir()
	root, _ := mountPowerFS(t, dir, -1)
	path = filepath.Join(dir, "ring.db")
	writeAll(t, dir, map[string][]byte{"ring.db": image})
	for _, tt := range []struct {
		from int
		want string
	}{
		{len(image), "intact"},
		{len(image) / 2, "input/output error"},
		{3 * os.Getpagesize(), "input/output error"},
		{100, "input/output error"},
	} {
		root.breakFrom(tt.from)
		// In a process of its own: one that waits for memory it serves itself might wait for ever.
		_, out := startPart(t, partCheck, path)
		if !out.Scan() || !strings.HasSuffix(out.Text(), tt.want) || strings.Contains(out.Text(), ErrDamaged.Error()) {
			t.Errorf("no byte from %d on can be read: got %q, want %q", tt.from, out.Text(), tt.want)
		}
	}
}

// A process that has found damage leaves alone what another one has put in its place meanwhile.
func TestSetAsideByAnother(t *testing.T) {
	path := madeDatabase(t, 5)
	if err := os.WriteFile(path, make([]byte, 1<<14), 0o600); err != nil {
		t.Fatal(err)
	}
	_, file, err := open(hastyConfig(path))
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v, want ErrDamaged", err)
	}
	s, damage, err := OpenOrReplace(hastyConfig(path))
	if err != nil || damage == nil {
		t.Fatalf("got %v, %v, want damage", damage, err)
	}
	if err := errors.Join(commitStep(s, 1), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := setAside(path, defaultLockTimeout, file); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := newHistory().checkDatabase(path, 1, 1); err != nil {
		t.Error(err)
	}
}

// What is behind the last page is nobody's, and not read.
func TestLongFile(t *testing.T) {
	path := madeDatabase(t, 40)
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skipf("needs a file system with files of that size: %v", err)
	}
	if err := CheckFile(path); err != nil {
		t.Error(err)
	}
}

// Meta pages whose checksums are right and which say what no transaction of bbolt has written.
func TestMetaPages(t *testing.T) {
	const n = 40
	image := readFile(t, madeDatabase(t, n))
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	if pages[1].txid() > pages[0].txid() {
		last = 1
	}
	pageSize := func(v uint32) func(*[2]metaPage) { // in the one that is found all the same
		return func(m *[2]metaPage) { binary.NativeEndian.PutUint32(m[1][offPageSize:], v) }
	}
	put64 := func(off int, v uint64) func(*[2]metaPage) {
		return func(m *[2]metaPage) { binary.NativeEndian.PutUint64(m[last][off:], v) }
	}
	const broken = "is broken"
	for name, tt := range map[string]struct {
		want   string
		change func(*[2]metaPage)
	}{
		"no page size":           {broken, pageSize(0)},
		"pages of a byte":        {broken, pageSize(1)},
		"pages of no power of 2": {broken, pageSize(3000)},
		"pages of 512 bytes":     {broken, pageSize(512)},
		"too long pages":         {broken, pageSize(1 << 25)},
		"another page size":      {"say that pages have", pageSize(2 * uint32(os.Getpagesize()))},
		"many pages":             {"cut short", put64(offEndPage, 1<<60)},
		"a list in page 0":       {"is a meta page", put64(offFreeList, 0)},
		"a list in page 1":       {"is a meta page", put64(offFreeList, 1)},
		"each other's place":     {"changed places", func(m *[2]metaPage) { m[0], m[1] = m[1], m[0] }},
	} {
		t.Run(name, func(t *testing.T) {
			changed, m := bytes.Clone(image), pages
			tt.change(&m)
			for i := range m {
				h := fnv.New64a()
				h.Write(m[i][:offChecksum])
				binary.NativeEndian.PutUint64(m[i][offChecksum:], h.Sum64())
				copy(changed[i*os.Getpagesize()+metaStart:], m[i][:])
			}
			for at := range 2 { // what begins as a list
				binary.NativeEndian.PutUint64(changed[at*os.Getpagesize():], uint64(at))
				binary.NativeEndian.PutUint32(changed[at*os.Getpagesize()+8:], freeListKind)
			}
			if err := checkImage(changed); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want damage that says %q", err, tt.want)
			}
		})
	}
}

func TestSetAside(t *testing.T) {
	path := dbPath(t)
	var kept []string
	for i := range 3 {
		image := fmt.Appendf(nil, "file %d", i)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := setAside(path, defaultLockTimeout, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, name); !bytes.Equal(got, image) {
			t.Errorf("got %q, want %q", got, image)
		}
		kept = append(kept, name)
	}
	for i, name := range kept {
		if want := fmt.Sprintf("file %d", i); string(readFile(t, name)) != want {
			t.Errorf("%s was overwritten", name)
		}
	}
	if _, err := setAside(path, defaultLockTimeout, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	// A start that ended here must not make the next one forget.
	s, damage, err := OpenOrReplace(testConfig(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if damage == nil || !strings.HasPrefix(damage.Kept, path+asideInfix) {
		t.Errorf("got damage %v, want the file that was set aside", damage)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
