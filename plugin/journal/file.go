package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/plugin/events"
)

const (
	current = "journal.jsonl"
	prefix  = "journal-"
	suffix  = ".jsonl"
	// stamp is the time in the name of a full file: as text it sorts as a time.
	stamp = "20060102T150405.000000000Z"
)

// record is a line.
type record struct {
	events.Event
	Inferred bool `json:"inferred,omitempty"`  // found out afterwards; it happened at Time or before
	ToSelf   bool `json:"to_self,omitempty"`   // the range came to this peer, whatever that is called now
	FromSelf bool `json:"from_self,omitempty"` // the range was this peer's
}

// appendLine appends the record as a line. The error is that of a time that JSON has no form for.
func (r *record) appendLine(b []byte) ([]byte, error) {
	line, err := json.Marshal(r)
	return append(append(b, line...), '\n'), err
}

// files are those of a journal. They are safe for concurrent use, by one who
// writes.
type files struct {
	dir      string
	maxBytes int64  // of one
	maxFiles int    // full ones and the current one
	reserve  uint64 // what is left to others of the file system, in bytes

	mu   sync.Mutex
	out  *os.File // nil: not open
	size int64
	text []byte // what was written last, kept for its memory
}

// writeAtOnce is how many bytes of lines are written at a time, or a few more.
const writeAtOnce = 64 << 10

// append writes records to the current file, and begins the next one when that
// is full then, unless more is to follow: what is written together stays together.
// It stops early, with the error of ctx and whole lines, when that ends. Not safe
// for concurrent use.
func (f *files) append(ctx context.Context, records []record, more bool) error {
	f.text = f.text[:0]
	for i := range records {
		if err := ctx.Err(); len(f.text) == 0 && err != nil {
			return err
		}
		var err error
		if f.text, err = records[i].appendLine(f.text); err != nil {
			return fmt.Errorf("an event cannot be written down: %w", err)
		}
		if last := i == len(records)-1; last || len(f.text) >= writeAtOnce {
			if err := f.write(f.text, last && !more); err != nil {
				return err
			}
			f.text = f.text[:0]
		}
	}
	return nil
}

// write writes lines, and begins the next file after the last of them if this
// one is full.
func (f *files) write(text []byte, last bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return err
	}
	if left, err := f.left(); err == nil && left < f.reserve {
		return fmt.Errorf("%d KiB are left on its file system, which the database may need: %w", left>>10, syscall.ENOSPC)
	}
	n, err := f.out.Write(text)
	f.size += int64(n)
	if err != nil {
		f.close() // what is cut is found when it is opened again
		return err
	}
	if last && f.size >= f.maxBytes {
		return f.rotate()
	}
	return nil
}

// left returns how many bytes the file system of the open file has left, and very many
// where it does not tell, as one in memory without a limit.
func (f *files) left() (uint64, error) {
	var st syscall.Statfs_t
	err := syscall.Fstatfs(int(f.out.Fd()), &st)
	if st.Blocks == 0 {
		return math.MaxUint64, err
	}
	return st.Bavail * uint64(st.Bsize), err
}

// open opens the current file, and ends a line that a crash has cut. f.mu is
// held.
func (f *files) open() error {
	if f.out != nil {
		return nil
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(f.dir, current), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		_ = out.Close()
		return err
	}
	f.out, f.size = out, info.Size()
	last := []byte{'\n'}
	if f.size > 0 {
		if _, err := out.ReadAt(last, f.size-1); err != nil {
			f.close()
			return err
		}
	}
	if last[0] != '\n' {
		n, err := out.Write([]byte{'\n'})
		f.size += int64(n)
		if err != nil {
			f.close()
			return err
		}
	}
	return nil
}

func (f *files) close() {
	if f.out != nil {
		_ = f.out.Close() // nothing is left to write
		f.out = nil
	}
}

// end closes the current file.
func (f *files) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
}

// rotate begins the next file and removes those that are too many. f.mu is
// held.
func (f *files) rotate() error {
	f.close()
	full, err := f.full()
	if err != nil {
		return err
	}
	name := nextName(full, time.Now())
	if err := os.Rename(filepath.Join(f.dir, current), filepath.Join(f.dir, name)); err != nil {
		return err
	}
	full = append(full, name)
	for len(full) > max(f.maxFiles-1, 0) {
		if err := os.Remove(filepath.Join(f.dir, full[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		full = full[1:]
	}
	return nil
}

// nextName returns the name of a file that is full now, which comes behind those
// of all that were before, also where the clock was ahead then.
func nextName(full []string, now time.Time) string {
	if len(full) > 0 {
		newest := full[len(full)-1]
		last, err := time.Parse(stamp, newest[len(prefix):len(newest)-len(suffix)])
		if err == nil && !now.After(last) {
			now = last.Add(1)
		}
	}
	return prefix + now.UTC().Format(stamp) + suffix
}

// full lists the full files, the oldest first.
func (f *files) full() ([]string, error) {
	list, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}

// haste is how the files are read.
type haste bool

const (
	hurried   haste = true
	leisurely haste = false // after each portion three times as much time is left to others as it took
)

// linesAtOnce is how many lines are read until it is looked whether they are still
// wanted.
const linesAtOnce = 1000

// read calls visit for each line in order that want, which sees its bytes,
// lets through. Lines that cannot be read are passed over. It ends early, with the
// cause, when ctx does.
func (f *files) read(ctx context.Context, how haste, want func(line []byte) bool, visit func(*record)) error {
	in, err := f.openAll()
	defer func() {
		for _, file := range in {
			_ = file.Close() // only read
		}
	}()
	if err != nil {
		return err
	}
	n, begun := 0, time.Now()
	for _, file := range in {
		lines := bufio.NewReaderSize(file, 64<<10)
		for {
			if n++; n%linesAtOnce == 0 {
				if how == leisurely {
					backoff.Sleep(ctx, 3*time.Since(begun), nil)
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				begun = time.Now()
			}
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				break // what comes before it is cut, or is being written
			}
			if err != nil {
				return err
			}
			if !want(line) {
				continue
			}
			var r record
			if json.Unmarshal(bytes.TrimSpace(line), &r) == nil && r.Kind != "" {
				visit(&r)
			}
		}
	}
	return nil
}

// openAll opens all files to read, the oldest first. What happens to them
// afterwards does not matter to who reads.
func (f *files) openAll() (out []*os.File, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names, err := f.full()
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, current) {
		file, err := os.Open(filepath.Join(f.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		out = append(out, file)
	}
	return out, nil
}
