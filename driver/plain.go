package driver

import (
	"bytes"
	"sync"

	remote "github.com/docker/go-plugins-helpers/ipam"

	"github.com/ringlet/ringlet/ipam"
)

// addressQuery is what is read of a request that concerns an address. It may
// point into the request's body.
type addressQuery struct {
	poolID, address []byte
	// Of its options; nil: it lacks them.
	kind, name, mac []byte
}

// readAddress reads the body of a request for an address, or that of its
// release, which has no options.
//
// Engines write these two with few variations, and they are nearly all that
// engines ask. What looks as expected is taken as it stands; anything else is
// left to encoding/json, which knows all that JSON may be.
func readAddress(body []byte, options bool) (addressQuery, error) {
	if q, ok := plainAddress(body); ok {
		return q, nil
	}
	if !options {
		var q remote.ReleaseAddressRequest
		err := decode(body, &q)
		return addressQuery{poolID: []byte(q.PoolID), address: []byte(q.Address)}, err
	}
	var q remote.RequestAddressRequest
	if err := decode(body, &q); err != nil {
		return addressQuery{}, err
	}
	option := func(key string) []byte {
		if val, ok := q.Options[key]; ok {
			return []byte(val)
		}
		return nil
	}
	return addressQuery{[]byte(q.PoolID), []byte(q.Address), option(optionType), option(optionEndpoint), option(optionMAC)}, nil
}

// plainAddress reads a body that has the known members alone, spelled as
// engines spell them, with strings in which nothing is escaped; false for any
// other.
func plainAddress(body []byte) (q addressQuery, ok bool) {
	p := plain{body}
	ok = p.object(func(key []byte) (known bool) {
		switch string(key) {
		case "PoolID":
			q.poolID, known = p.text()
		case "Address":
			q.address, known = p.text()
		case "Options":
			if p.word("null") {
				q.kind, q.name, q.mac = nil, nil, nil
				return true
			}
			known = p.object(func(key []byte) bool {
				val, known := p.text()
				switch string(key) {
				case optionType:
					q.kind = val
				case optionEndpoint:
					q.name = val
				case optionMAC:
					q.mac = val
				}
				return known
			})
		}
		return known
	})
	return q, ok && len(p.rest) == 0
}

// plain reads JSON of which only the plainest kinds are known.
type plain struct{ rest []byte }

// object reads an object; member reads the value of a key, and reports whether
// it could.
func (p *plain) object(member func(key []byte) bool) bool {
	if !p.word("{") {
		return false
	}
	if p.word("}") {
		return true
	}
	for {
		key, ok := p.text()
		if !ok || !p.word(":") || !member(key) {
			return false
		}
		if !p.word(",") {
			return p.word("}")
		}
	}
}

// word reads what must stand next, and reports whether it does.
func (p *plain) word(s string) bool {
	p.space()
	if len(p.rest) < len(s) || string(p.rest[:len(s)]) != s {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

// text reads a string of printable ASCII in which nothing is escaped. It is
// never nil.
func (p *plain) text() ([]byte, bool) {
	if !p.word(`"`) {
		return nil, false
	}
	end := bytes.IndexByte(p.rest, '"')
	if end < 0 {
		return nil, false
	}
	s := p.rest[:end:end]
	for _, c := range s {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, false
		}
	}
	p.rest = p.rest[end+1:]
	return s, true
}

func (p *plain) space() {
	for len(p.rest) > 0 && (p.rest[0] == ' ' || p.rest[0] == '\n' || p.rest[0] == '\t' || p.rest[0] == '\r') {
		p.rest = p.rest[1:]
	}
}

// networks are those that pool IDs were read to lately: an engine sends the
// same few again and again. It is safe for concurrent use.
type networks struct {
	mu    sync.RWMutex
	known map[string]ipam.Network
}

// maxNetworks is how many are known at most: some 300 KB.
const maxNetworks = 1024

// network reads a pool ID.
func (n *networks) network(id []byte) (ipam.Network, error) {
	n.mu.RLock()
	found, ok := n.known[string(id)]
	n.mu.RUnlock()
	if ok {
		return found, nil
	}
	found, err := network(string(id))
	if err != nil {
		return found, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxNetworks {
		clear(n.known)
	}
	if n.known == nil {
		n.known = map[string]ipam.Network{}
	}
	n.known[string(id)] = found
	return found, nil
}
