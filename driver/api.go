package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	remote "github.com/docker/go-plugins-helpers/ipam"

	"github.com/ringlet/ringlet/ipam"
)

// manifest answers the activation of plugins that are found by their socket.
// Managed plugins are never asked.
const manifest = `{"Implements": ["IpamDriver"]}`

// What engines write into the options of RequestAddress (libnetwork's
// ipamapi and netlabel), and what they read from the data of RequestPool.
const (
	optionType     = "RequestAddressType"
	typeGateway    = "com.docker.network.gateway"
	optionEndpoint = "com.docker.network.endpoint.name"       // engines from 29.0
	optionMAC      = "com.docker.network.endpoint.macaddress" // by the capability
	dataGateway    = "com.docker.network.gateway"

	// engineOptions is what all options of the engine's own begin with. A swarm
	// manager mixes some into the options of pools.
	engineOptions = "com.docker.network."
)

// capabilities is the type of go-plugins-helpers with the field it lacks.
type capabilities struct {
	remote.CapabilitiesResponse

	RequiresRequestReplay bool
}

// announced is what we ask of engines. With MAC addresses a container's
// request always has options, so that it differs from a replayed one on all
// versions. A replay is the only inventory that an engine volunteers.
func announced(noMAC bool) capabilities {
	return capabilities{
		CapabilitiesResponse:  remote.CapabilitiesResponse{RequiresMACAddress: !noMAC},
		RequiresRequestReplay: true,
	}
}

// addressSpaces returns the two names. They differ, or we could not tell a
// swarm manager's calls from those of its node.
func addressSpaces() remote.AddressSpacesResponse {
	return remote.AddressSpacesResponse{
		LocalDefaultAddressSpace:  string(ipam.Local),
		GlobalDefaultAddressSpace: string(ipam.Global),
	}
}

// refusal is a failure as engines read it. The type of go-plugins-helpers has
// the field Err, which is not read in an answer with status 200.
type refusal struct{ Error string }

// done answers what has no result.
type done struct{}

// decode reads the body of a request, one JSON object without space around it,
// into q. Field names match whatever their case, unknown ones are ignored.
func decode(body []byte, q any) error {
	if !bytes.HasPrefix(body, []byte("{")) {
		return errBody("it is no JSON object")
	}
	err := json.Unmarshal(body, q)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errBody(fmt.Sprintf("%s is a JSON %s", e.Field, e.Value))
	}
	if err != nil {
		return errBody(err.Error())
	}
	return nil
}

// granted is an address that was granted, which is answered as the type of
// go-plugins-helpers with empty data.
type granted struct{ address netip.Prefix }

// encode writes an answer, which is one of the types above and those of
// go-plugins-helpers, as one line.
func encode(b *bytes.Buffer, answer any) error {
	switch a := answer.(type) {
	case done:
		b.WriteString("{}\n")
		return nil
	case granted:
		b.WriteString(`{"Address":"`)
		b.Write(a.address.AppendTo(b.AvailableBuffer()))
		b.WriteString(`","Data":{}}` + "\n")
		return nil
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false) // pool IDs stay legible in traces
	return e.Encode(answer)
}
