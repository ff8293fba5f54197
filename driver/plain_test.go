package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	remote "github.com/docker/go-plugins-helpers/ipam"
)

// TestPlainAddress: what engines write is read without encoding/json, and what
// may mean something else is not.
func TestPlainAddress(t *testing.T) {
	for _, body := range []string{
		containerBody, claimBody, stopBody,
		`{"PoolID":"ringlet1/local/10.1.0.0/16","Address":"","Options":{"com.docker.network.endpoint.name":"web","com.docker.network.endpoint.macaddress":""}}`,
		`{"PoolID":"ringlet1/local/10.1.0.0/16","Address":"10.1.0.1","Options":{"RequestAddressType":"com.docker.network.gateway"}}`,
		`{"PoolID":"ringlet1/local/10.1.0.0/16","Address":"10.1.0.9","Options":null}`,
		`{}`, "{ \"PoolID\" :\t\"x\",\n\"Options\" : { \"any\" : \"~\" } }",
	} {
		if _, ok := plainAddress([]byte(body)); !ok {
			t.Errorf("left to encoding/json: %s", body)
		}
	}
	for _, body := range []string{
		``, `null`, `{`, `{"PoolID":"x"`, `{"PoolID":"x",}`, `{"PoolID":"x"}}`, `{"PoolID":"x"} 1`, `{"PoolID":"x`, `{"PoolID" "x"}`, `{"PoolID":null}`, `{"PoolID":1}`,
		`{"poolid":"x"}`, `{"Pool":"x"}`, `{"PoolID":"a\u0062"}`, `{"PoolID":"ä"}`, "{\"PoolID\":\"a\x01\"}", "{\"PoolID\":\"\xff\"}",
		`{"Options":{"a":1}}`, `{"Options":{"a":null}}`, `{"Options":[]}`, `{"Options":{"a":"b",}}`, `{"Options":{"\u0061":"b"}}`,
	} {
		if q, ok := plainAddress([]byte(body)); ok {
			t.Errorf("%s was read as %+v", body, q)
		}
	}
}

// FuzzPlainAddress asks that what is read without encoding/json is what that
// reads.
func FuzzPlainAddress(f *testing.F) {
	for _, body := range []string{
		containerBody, claimBody, stopBody, removeBody, `{"PoolID":"a","PoolID":"b","Address":"c"}`,
		`{"Options":{"RequestAddressType":"a","RequestAddressType":"b"},"Options":{"com.docker.network.endpoint.name":"c"}}`,
		`{"Options":{"com.docker.network.endpoint.macaddress":"a"},"Options":null}`, `{"Options":null,"Options":{"com.docker.network.endpoint.name":""}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		body = bytes.TrimSpace(body)
		got, ok := plainAddress(body)
		if !ok {
			return
		}
		var request remote.RequestAddressRequest
		if err := decode(body, &request); err != nil {
			t.Fatal(err)
		}
		want := addressQuery{poolID: []byte(request.PoolID), address: []byte(request.Address)}
		for key, into := range map[string]*[]byte{optionType: &want.kind, optionEndpoint: &want.name, optionMAC: &want.mac} {
			if val, ok := request.Options[key]; ok {
				*into = []byte(val)
			}
		}
		for what, pair := range map[string][2][]byte{
			"kind": {got.kind, want.kind}, "name": {got.name, want.name}, "mac": {got.mac, want.mac},
			"address": {append([]byte{}, got.address...), want.address}, "pool": {append([]byte{}, got.poolID...), want.poolID},
		} {
			if !bytes.Equal(pair[0], pair[1]) || (pair[0] == nil) != (pair[1] == nil) {
				t.Errorf("%s: got %q, want %q", what, pair[0], pair[1])
			}
		}
		var release remote.ReleaseAddressRequest
		if err := decode(body, &release); err != nil || release.PoolID != string(got.poolID) || release.Address != string(got.address) {
			t.Errorf("released: got %+v, want %+v, %v", got, release, err)
		}
	})
}

// TestGranted: the answer is what the engine's own type would be.
func TestGranted(t *testing.T) {
	for _, p := range []string{"10.1.0.9/16", "fd00::9/64"} {
		want, err := json.Marshal(remote.RequestAddressResponse{Address: p, Data: map[string]string{}})
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := encode(&got, granted{prefix(p)}); err != nil || got.String() != string(want)+"\n" {
			t.Errorf("got %s, %v, want %s", got.String(), err, want)
		}
	}
}

// TestNetworksKnown asks for more networks than are known at a time, several at once.
func TestNetworksKnown(t *testing.T) {
	var known networks
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2*maxNetworks + 3 {
				id := fmt.Sprintf("ringlet1/local/10.%d.%d.0/24", i>>8, i&255)
				for range 2 {
					n, err := known.network([]byte(id))
					if err != nil || string(n.ID()) != id {
						t.Errorf("%s is %v, %v", id, n, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(known.known); n > maxNetworks {
		t.Errorf("%d are known, more than %d", n, maxNetworks)
	}
	_, err := known.network([]byte("10.1.0.0/16"))
	_, again := known.network([]byte("10.1.0.0/16"))
	if err == nil || again == nil {
		t.Errorf("got %v, and %v", err, again)
	}
}

// TestOngoing ends calls: those that wait, and one that comes too late, but not
// one that is done.
func TestOngoing(t *testing.T) {
	var o ongoing
	begin := func() (*call, context.Context) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		c := &call{}
		o.begin(c, cancel)
		return c, ctx
	}
	over, before := begin()
	_, waits := begin()
	o.done(over)
	o.end()
	_, late := begin()
	var got []error
	for _, ctx := range []context.Context{before, waits, late} {
		got = append(got, ctx.Err())
	}
	equal := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })
	if diff := cmp.Diff([]error{nil, context.Canceled, context.Canceled}, got, equal); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}
