package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"

	remote "github.com/docker/go-plugins-helpers/ipam"
)

// bareServer serves in a directory until it is told to end. It answers the engine's calls and does nothing for them but a
// bbolt commit of one key: what a durable call over a socket takes on this machine, whoever makes it. That is more than a
// call and a commit apart, since the processor goes to sleep while the disk works.
func bareServer(socket string) error {
	floor, err := openBolt(filepath.Join(filepath.Dir(socket), "bare.db"))
	if err != nil {
		return err
	}
	defer floor.db.Close()
	mux := http.NewServeMux()
	handle := func(call string, durable bool, answer func() any) {
		mux.HandleFunc("POST /"+call, func(w http.ResponseWriter, r *http.Request) {
			var asked remote.RequestAddressRequest
			_ = json.NewDecoder(r.Body).Decode(&asked) // some calls have no body
			if durable {
				if err := floor.one(); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
			}
			w.Header().Set("Content-Type", "application/vnd.docker.plugins.v1.2+json")
			_ = json.NewEncoder(w).Encode(answer()) // the client notices
		})
	}
	var n atomic.Uint32
	handle("IpamDriver.GetDefaultAddressSpaces", false, func() any { return remote.AddressSpacesResponse{LocalDefaultAddressSpace: "local"} })
	handle("IpamDriver.ReleaseAddress", true, func() any { return struct{}{} })
	handle("IpamDriver.RequestAddress", true, func() any {
		i := n.Add(1)
		return remote.RequestAddressResponse{Address: net.IPv4(10, 50, byte(i>>8), byte(i)).String() + "/16"}
	})
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	ctx, stop := untilTold()
	defer stop()
	server := &http.Server{Handler: mux} // it serves this program alone
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
