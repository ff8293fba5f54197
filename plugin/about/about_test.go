package about

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/logging"
)

func key(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }

// What is told of the process shows no secret.
func TestAboutShowsNoSecrets(t *testing.T) {
	cfg, err := config.Load([]string{"RINGLET_KEY=" + key(7) + "," + key(8), "RINGLET_TOKEN=hush-hush-hush-hush", "RINGLET_HTTP=127.0.0.1:7951"}, func() (string, error) { return "host-a", nil })
	if err != nil {
		t.Fatal(err)
	}
	log, sink := logging.New(logging.Config{})
	watcher, err := dockerd.New(dockerd.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Settings: cfg, Watcher: watcher, Sink: sink, Database: "/nowhere"})
	log.Info("started", slog.Any("settings", cfg))
	about, err := d.About(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := d.Keys(t.Context())
	if err != nil || len(keys.Keys) != 2 || keys.Source != "settings" || keys.Keys[0].Fingerprint == keys.Keys[1].Fingerprint {
		t.Errorf("%+v, %v", keys, err)
	}
	text, err := json.Marshal([]any{about, keys, string(d.Log())})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{key(7), key(8), "hush"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s shows %s", text, secret)
		}
	}
	if about.Settings["key"] != "2" || about.Settings["token"] != "true" || !bytes.Contains(d.Log(), []byte("started")) {
		t.Errorf("%+v", about.Settings)
	}
	if _, err := d.ChangeKeys(t.Context(), admin.KeyChange{Step: admin.KeyAdd, Key: key(9)}); err == nil || !strings.Contains(err.Error(), "RINGLET_KEY_FILE") {
		t.Errorf("keys in the settings: %v", err)
	}
}
