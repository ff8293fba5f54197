package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// dialer connects to a socket.
type dialer func(ctx context.Context) (net.Conn, error)

// unixDialer connects to a unix socket.
func unixDialer(path string) dialer {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
}

// client speaks HTTP with whoever listens there, and keeps the connection.
func (d dialer) client() *http.Client {
	return &http.Client{Timeout: startLimit, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) },
	}}
}

// scrape reads the metrics of a ringlet on its admin socket, by name and labels.
func scrape(ctx context.Context, admin dialer) (map[string]float64, error) {
	c := admin.client()
	defer c.CloseIdleConnections()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ringlet/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	r, err := c.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", r.Status)
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			if out[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("metrics: %w", err)
			}
		}
	}
	return out, lines.Err()
}
