package driver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/golden"
)

// TestRecorded plays recorded requests of engines over a real socket, byte by
// byte as they come, and compares with each file what reaches the backend and
// what is answered. A file is
//
//	# why it is asked
//	request line and headers, without the length of the body
//
//	body
//	-- asked --
//	what reached the backend
//	-- answer --
//	status and body
//
// With -update the last two parts are written.
func TestRecorded(t *testing.T) {
	for _, dir := range []string{"calls", "errors"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in testdata/%s: %v", dir, err)
		}
		for _, file := range files {
			name := dir + "/" + filepath.Base(file)
			t.Run(strings.TrimSuffix(name, ".txt"), func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				request, _, ok := strings.Cut(string(text), "-- asked --\n")
				if !ok {
					t.Fatal("there is no line -- asked --")
				}
				backend := &fake{}
				d, path := newDriver(t, Config{Backend: backend}), socketPath(t)
				stop := serveOn(t, d, path)
				status, body := play(t, path, request)
				if err := stop(); err != nil { // all is done that follows an answer
					t.Error(err)
				}
				var got bytes.Buffer
				fmt.Fprintf(&got, "%s-- asked --\n", request)
				for _, line := range backend.take() {
					fmt.Fprintln(&got, line)
				}
				fmt.Fprintf(&got, "-- answer --\n%d\n%s", status, body)
				golden.Check(t, name, got.Bytes())
				if status != http.StatusOK {
					t.Errorf("status %d: engines know none but 200", status)
				}
				if dir == "errors" && !regexp.MustCompile(`^\{"Error":"[a-z0-9"\\].*[^.]"\}\n$`).MatchString(body) {
					t.Errorf("not a lower-case sentence without full stop: %s", body)
				}
			})
		}
	}
}

// play sends a request of a golden file to the socket and returns the answer.
func play(t *testing.T, path, request string) (status int, body string) {
	t.Helper()
	_, request, _ = strings.Cut(request, "\n") // the comment
	head, content, ok := strings.Cut(request, "\n\n")
	if !ok {
		t.Fatal("no empty line behind the headers")
	}
	if content == "\n" {
		content = ""
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) // an engine keeps it; one that closes it may not have read the answer
	head = strings.ReplaceAll(head, "\n", "\r\n")
	if _, err := fmt.Fprintf(conn, "%s\r\nContent-Length: %d\r\n\r\n%s", head, len(content), content); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}
