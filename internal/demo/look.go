package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// A view is what a container has, without loopback and link-local addresses.
type view struct {
	Addresses []address `json:"addresses"`
	Routes    []route   `json:"routes"`
}

type address struct {
	Interface string       `json:"interface"`
	Address   netip.Prefix `json:"address"` // host bits set: the address with the length of its subnet
	MAC       string       `json:"mac"`
}

// A route with a gateway; the routes of the subnets themselves say nothing new.
type route struct {
	Interface string       `json:"interface"`
	To        netip.Prefix `json:"to"`
	Via       netip.Addr   `json:"via"`
}

// look reads the interfaces and routes of the network namespace the program runs in.
func look() (view, error) {
	v := view{Addresses: []address{}, Routes: []route{}}
	interfaces, err := net.Interfaces()
	if err != nil {
		return v, err
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return v, fmt.Errorf("addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				return v, fmt.Errorf("address of %s: %w", i.Name, err)
			}
			if p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			v.Addresses = append(v.Addresses, address{Interface: i.Name, Address: p, MAC: i.HardwareAddr.String()})
		}
	}
	for file, parse := range map[string]func(io.Reader) ([]route, error){
		"/proc/net/route":      routes4,
		"/proc/net/ipv6_route": routes6,
	} {
		found, err := routesOf(file, parse)
		if err != nil {
			return v, err
		}
		v.Routes = append(v.Routes, found...)
	}
	return v, nil
}

func routesOf(file string, parse func(io.Reader) ([]route, error)) ([]route, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}

// routes4 reads the format of /proc/net/route: interface, destination, gateway, …, mask in the eighth column; addresses
// are hexadecimal in the byte order of the machine. The first line is a heading.
func routes4(r io.Reader) ([]route, error) {
	var found []route
	lines := bufio.NewScanner(r)
	lines.Scan()
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 {
			continue
		}
		var numbers [3]uint32
		for i, text := range []string{f[1], f[2], f[7]} {
			n, err := strconv.ParseUint(text, 16, 32)
			if err != nil {
				return nil, err
			}
			numbers[i] = uint32(n)
		}
		if numbers[1] == 0 {
			continue
		}
		bits, _ := net.IPMask(native(numbers[2]).AsSlice()).Size()
		found = append(found, route{Interface: f[0], To: netip.PrefixFrom(native(numbers[0]), bits), Via: native(numbers[1])})
	}
	return found, lines.Err()
}

// native is the address whose bytes lie in memory as those of n do.
func native(n uint32) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// routes6 reads the format of /proc/net/ipv6_route: destination, its length, source, its length, next hop, …, interface
// in the tenth column; all numbers are hexadecimal.
func routes6(r io.Reader) ([]route, error) {
	var found []route
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		to, err := hexAddr(f[0])
		if err != nil {
			return nil, err
		}
		bits, err := strconv.ParseUint(f[1], 16, 8)
		if err != nil {
			return nil, err
		}
		via, err := hexAddr(f[4])
		if err != nil {
			return nil, err
		}
		if via.IsUnspecified() {
			continue
		}
		found = append(found, route{Interface: f[9], To: netip.PrefixFrom(to, int(bits)), Via: via})
	}
	return found, lines.Err()
}

func hexAddr(text string) (netip.Addr, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return netip.Addr{}, err
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q is no address", text)
	}
	return a, nil
}
