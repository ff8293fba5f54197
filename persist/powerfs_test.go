package persist

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// powerFS is a file system with a plug. A file has what is on its disk and, beside it, the writes since its last
// sync; when the plug is pulled, of these any sectors may have reached the disk, and from then on nothing is answered but
// EIO, least of all a sync. Names are on disk at once, which is the worst case for a file renamed before its sync.
type powerFS struct {
	fs.Inode

	mu    sync.Mutex
	cut   bool
	limit int // operations until the power goes by itself, negative for never
	bad   int // from this byte of each file on nothing can be read, unless it is 0
	fail  int // which sync of a file from now on fails, 1 for the next, and has what it should bring to the disk forgotten
	file  map[string]*powerFile

	renamed bool // and the directory not synced since

	refuse  int           // which change of a file from now on is refused, 1 for the next
	refusal syscall.Errno // with that
	always  bool          // and all that follow
}

type powerFile struct {
	fs.Inode
	fs *powerFS

	now     []byte       // what a reader sees
	disk    []byte       // what was synced
	pending []powerWrite // since then
}

// powerWrite is an unsynced write, or a change of the size if data is nil.
type powerWrite struct {
	off  int64
	data []byte
}

var (
	_ fs.NodeCreater   = (*powerFS)(nil)
	_ fs.NodeRenamer   = (*powerFS)(nil)
	_ fs.NodeUnlinker  = (*powerFS)(nil)
	_ fs.NodeLinker    = (*powerFS)(nil)
	_ fs.NodeFsyncer   = (*powerFS)(nil)
	_ fs.NodeOpener    = (*powerFile)(nil)
	_ fs.NodeReader    = (*powerFile)(nil)
	_ fs.NodeWriter    = (*powerFile)(nil)
	_ fs.NodeFsyncer   = (*powerFile)(nil)
	_ fs.NodeGetattrer = (*powerFile)(nil)
	_ fs.NodeSetattrer = (*powerFile)(nil)
)

// mountPowerFS mounts a new one at dir, or skips the test where that is not possible. limit is as in powerFS.
func mountPowerFS(t *testing.T, dir string, limit int) (root *powerFS, unmount func()) {
	t.Helper()
	if dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("needs a FUSE device: %v", err)
	} else {
		dev.Close()
	}
	root = &powerFS{limit: limit, file: map[string]*powerFile{}}
	server, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{Name: "powerfs", DirectMount: true, DisableXAttrs: true}})
	if err != nil {
		t.Skipf("needs the right to mount a FUSE file system: %v", err)
	}
	unmount = sync.OnceFunc(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	t.Cleanup(unmount)
	return root, unmount
}

// cutAfter has the power go by itself after so many operations from now on.
func (r *powerFS) cutAfter(operations int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = operations
}

// pull cuts the power and returns what each file holds when it is back.
func (r *powerFS) pull(rnd *rand.Rand) map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	left := map[string][]byte{}
	for name, f := range r.file {
		left[name] = f.afterCut(rnd)
	}
	return left
}

// refuseWrite has the change of a file with that number refused, 1 for the next, and all later ones where always is set.
// It returns how many there were to be until the one that was to be refused before.
func (r *powerFS) refuseWrite(n int, with syscall.Errno, always bool) (before int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.refuse, r.refusal, r.always = r.refuse, n, with, always
	return before
}

// write is do for what changes a file.
func (r *powerFS) write(op func() syscall.Errno) syscall.Errno {
	return r.do(func() syscall.Errno {
		if r.refuse--; r.refuse == 0 || r.always && r.refuse < 0 {
			return r.refusal
		}
		return op()
	})
}

// contents returns what a reader of each file sees.
func (r *powerFS) contents() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string][]byte{}
	for name, f := range r.file {
		all[name] = bytes.Clone(f.now)
	}
	return all
}

// breakFrom has nothing read any more from that byte of each file on, and what was read before forgotten.
func (r *powerFS) breakFrom(at int) {
	r.mu.Lock()
	r.bad = at
	files := slices.Collect(maps.Values(r.file))
	r.mu.Unlock()
	for _, f := range files {
		f.NotifyContent(0, 0) // fails for what is not cached
	}
}

// failSync has the sync of a file with that number fail, 1 for the next, and returns how many there were to be until the
// one that was to fail before.
func (r *powerFS) failSync(n int) (before int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.fail = r.fail, n
	return before
}

// forgetNames has the directory as if nobody had synced it.
func (r *powerFS) forgetNames() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renamed = true
}

// namesSynced reports whether the directory was synced since a file was renamed.
func (r *powerFS) namesSynced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.renamed
}

// afterCut returns the synced bytes, in one of three cases with nothing of the rest, else with random sectors of it.
func (f *powerFile) afterCut(rnd *rand.Rand) []byte {
	disk := bytes.Clone(f.disk)
	if rnd.IntN(3) == 0 {
		return disk
	}
	for _, w := range f.pending {
		if rnd.IntN(3) == 0 {
			continue
		}
		if w.data == nil {
			disk = resize(disk, w.off)
			continue
		}
		whole := rnd.IntN(2) == 0
		for at := 0; at < len(w.data); at += sector {
			if whole || rnd.IntN(2) == 0 {
				part := w.data[at:min(at+sector, len(w.data))]
				disk = resize(disk, max(int64(len(disk)), w.off+int64(at+len(part))))
				copy(disk[w.off+int64(at):], part)
			}
		}
	}
	return disk
}

func resize(b []byte, size int64) []byte {
	if n := size - int64(len(b)); n > 0 {
		return append(b, make([]byte, n)...)
	}
	return b[:size]
}

// do runs one operation, unless the power is off.
func (r *powerFS) do(op func() syscall.Errno) syscall.Errno {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit == 0 {
		r.cut = true
	}
	if r.cut {
		return syscall.EIO
	}
	r.limit--
	return op()
}

func (r *powerFS) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f := &powerFile{fs: r}
	errno := r.write(func() syscall.Errno {
		r.file[name] = f
		f.attr(&out.Attr)
		return 0
	})
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return r.NewInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), nil, 0, 0
}

func (r *powerFS) Rename(_ context.Context, name string, _ fs.InodeEmbedder, newName string, _ uint32) syscall.Errno {
	return r.write(func() syscall.Errno {
		r.file[newName] = r.file[name]
		delete(r.file, name)
		r.renamed = true
		return 0
	})
}

func (r *powerFS) Link(_ context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f, ok := target.(*powerFile)
	if !ok {
		return nil, syscall.EPERM
	}
	errno := r.write(func() syscall.Errno {
		r.file[name] = f
		r.renamed = true
		f.attr(&out.Attr)
		return 0
	})
	if errno != 0 {
		return nil, errno
	}
	return f.EmbeddedInode(), 0
}

func (r *powerFS) Unlink(_ context.Context, name string) syscall.Errno {
	return r.do(func() syscall.Errno {
		delete(r.file, name)
		return 0
	})
}

func (r *powerFS) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return r.do(func() syscall.Errno {
		r.renamed = false
		return 0
	})
}

func (f *powerFile) attr(out *fuse.Attr) {
	out.Mode = fuse.S_IFREG | 0o600
	out.Nlink = 1 // the kernel links to no file without a name
	out.Size = uint64(len(f.now))
}

func (f *powerFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, f.fs.do(func() syscall.Errno { return 0 })
}

func (f *powerFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return f.fs.do(func() syscall.Errno {
		f.attr(&out.Attr)
		return 0
	})
}

func (f *powerFile) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	change := f.fs.do
	if _, ok := in.GetSize(); ok {
		change = f.fs.write
	}
	return change(func() syscall.Errno {
		if size, ok := in.GetSize(); ok {
			f.now = resize(f.now, int64(size))
			f.pending = append(f.pending, powerWrite{off: int64(size)})
		}
		f.attr(&out.Attr)
		return 0
	})
}

func (f *powerFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n := 0
	errno := f.fs.do(func() syscall.Errno {
		if bad := int64(f.fs.bad); bad > 0 && off+int64(len(dest)) > bad && bad < int64(len(f.now)) {
			return syscall.EIO
		}
		if off < int64(len(f.now)) {
			n = copy(dest, f.now[off:])
		}
		return 0
	})
	return fuse.ReadResultData(dest[:n]), errno
}

func (f *powerFile) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	errno := f.fs.write(func() syscall.Errno {
		f.now = resize(f.now, max(int64(len(f.now)), off+int64(len(data))))
		copy(f.now[off:], data)
		f.pending = append(f.pending, powerWrite{off, bytes.Clone(data)})
		return 0
	})
	return uint32(len(data)), errno
}

// Fsync brings to the disk what was written since the last one. One that fails leaves it where a reader sees it, as kernels
// do, and no later one brings it there.
func (f *powerFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return f.fs.write(func() syscall.Errno {
		pending := f.pending
		f.pending = nil
		if f.fs.fail--; f.fs.fail == 0 {
			return syscall.EIO
		}
		for _, w := range pending {
			f.disk = w.onto(f.disk)
		}
		return 0
	})
}

// onto makes all of the write.
func (w powerWrite) onto(disk []byte) []byte {
	if w.data == nil {
		return resize(disk, w.off)
	}
	disk = resize(disk, max(int64(len(disk)), w.off+int64(len(w.data))))
	copy(disk[w.off:], w.data)
	return disk
}
