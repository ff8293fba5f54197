package main

import (
	"net/netip"

	"github.com/ringlet/ringlet/internal/kernelnet"
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
	interfaces, err := kernelnet.Interfaces()
	if err != nil {
		return v, err
	}
	names := map[int]string{}
	for i := range interfaces {
		on := &interfaces[i]
		names[on.Index] = on.Name
		for _, p := range on.Addresses {
			if p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			v.Addresses = append(v.Addresses, address{Interface: on.Name, Address: p, MAC: on.HardwareAddr.String()})
		}
	}
	for r, err := range kernelnet.Routes() {
		if err != nil {
			return v, err
		}
		if r.Gateway.IsValid() {
			v.Routes = append(v.Routes, route{Interface: names[r.Interface], To: r.To, Via: r.Gateway})
		}
	}
	return v, nil
}
