package wal

import (
	"errors"
	"path/filepath"
	"testing"
)

// Two processes that make a log at the same time do not use the same one, and none takes the name of another's.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	temp, path := filepath.Join(dir, "x.new"), filepath.Join(dir, "x")
	first, err := Create(temp, testSegment, false)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Create(temp, testSegment, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Rename(path); err == nil {
		t.Error("the first has taken the second's")
	}
	if err := errors.Join(first.Remove(), second.Rename(path)); err != nil {
		t.Error(err)
	}
	third, err := Create(temp, testSegment, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Rename(path); err == nil {
		t.Error("the third has taken the second's")
	}
	mustAppend(t, third, batchOf("k", nil))
	if _, n, err := third.Read(nil, 0); n != 1 || err != nil {
		t.Errorf("the third has %d batches, %v", n, err)
	}
	if err := errors.Join(second.Remove(), third.Remove()); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}
