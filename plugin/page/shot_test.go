package page_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var shots = flag.String("shots", "", "write screenshots of the page into this directory")

// TestReadmeShots takes those of the README.
func TestReadmeShots(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are only taken with -shots DIRECTORY")
	}
	b := open(t)
	s := sceneOf(4)
	address := b.serve(s)
	for _, scheme := range []string{"light", "dark"} {
		b.visit(address, 1100, scheme)
		b.do("looking at an address", run(`document.getElementById("address").value = "`+s.held[2].Address.String()+`"; document.querySelector("#look button").click()`))
		b.until(`document.getElementById("detail").innerText.includes("in use")`)
		if err := os.WriteFile(filepath.Join(*shots, "page-"+scheme+".png"), b.window(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShots takes pictures of the page as it looks with few and many peers, in
// windows of several sizes, for people to judge.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are only taken with -shots DIRECTORY")
	}
	b := open(t)
	for _, peers := range []int{1, 3, 20} {
		address := b.serve(sceneOf(peers))
		for _, width := range []int64{380, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				b.visit(address, width, scheme)
				png := b.picture()
				file := filepath.Join(*shots, fmt.Sprintf("page-%d-%d-%s.png", peers, width, scheme))
				if err := os.WriteFile(file, png, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
