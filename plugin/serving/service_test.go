package serving

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// The problem names who is in the way.
func TestAdminSocketOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	other, err := driver.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var log plugintest.Log
	s := NewAdmin(nil, path, nil, log.Logger())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	plugintest.Eventually(t, "the problem is noticed", func() bool { _, wrong := s.fault.Problem(); return wrong })
	if p, _ := s.fault.Problem(); !strings.Contains(p.Text, path) || !strings.Contains(p.Text, "another process answers") {
		t.Errorf("the problem is %q", p.Text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
