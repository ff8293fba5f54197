package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"regexp"
	"testing"
)

// What the compiler goes by names the calls that matter, and tells nothing of the machine on which it was made.
func TestProfileOfTheProgram(t *testing.T) {
	f, err := os.Open("default.pgo") // where the go command looks for it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ipam.(*Machine).Step", "ipam/space.(*Space).Take", "ipam/ring.(*Ring).At", "driver.(*Driver).requestAddress", "persist.(*Store).Commit"} {
		if !bytes.Contains(profile, []byte("github.com/ringlet/ringlet/"+name)) {
			t.Errorf("%s is not in it: make profile", name)
		}
	}
	// In the file each text is followed by a 2, if by another.
	if path := regexp.MustCompile(`/[^/]*\.go2|/tmp|/usr|/home`).Find(profile); path != nil {
		t.Errorf("it names a file: %q", path)
	}
}
