package archtest

// ours is the module; packages are named in the tables without it.
const ours = "github.com/ringlet/ringlet/"

// coreStd is what of the standard library the core may import directly (R1): nothing with a clock to ask, a file, a
// socket, a lock or a goroutine. time is there for its types; forbidigo forbids time.Now and its kin.
var coreStd = []string{
	"bytes", "cmp", "encoding/binary", "encoding/hex", "errors", "fmt", "hash/crc32", "iter", "maps", "math", "math/bits",
	"math/rand/v2", "net/netip", "slices", "strconv", "strings", "time",
}

// core is every package of the core, with the core packages it may import (R1).
var core = map[string]struct {
	imports []string
	reason  string
}{
	"ipam/addr":                {nil, "the arithmetic of addresses knows nothing above it"},
	"ipam/peer":                {nil, "names of peers know nothing above them"},
	"ipam/codec":               {nil, "the binary forms know nothing of what is written in them"},
	"ipam/space":               {[]string{"ipam/addr"}, "what this peer holds; who owns what is the ring's"},
	"ipam/ring":                {[]string{"ipam/addr", "ipam/peer", "ipam/codec"}, "who owns what; what is held is the space's"},
	"ipam/table":               {[]string{"ipam/addr", "ipam/peer", "ipam/codec"}, "the agreed facts, without how they were agreed"},
	"ipam/paxos":               {[]string{"ipam/peer"}, "agreement on bytes, whatever they mean"},
	"ipam/chronicle":           {[]string{"ipam/ring", "ipam/table", "ipam/addr", "ipam/peer", "ipam/codec"}, "the agreed commands, applied in order"},
	"ipam/wire":                {[]string{"ipam/chronicle", "ipam/paxos", "ipam/ring", "ipam/addr", "ipam/peer", "ipam/codec"}, "what peers say, without what follows from it"},
	"ipam/effect":              {[]string{"ipam/wire", "ipam/addr", "ipam/peer"}, "what is to be done, without who wants it or why"},
	"ipam/replog":              {[]string{"ipam/effect", "ipam/wire"}, "the decided slots, without what they mean, what an engine has or who lives"},
	"plugin/directory/replica": {[]string{"ipam/table", "ipam/peer", "ipam/codec", "plugin/packed"}, "what every peer says, without what it means or how it travels"},
	"ipam": {
		[]string{"ipam/replog", "ipam/effect", "ipam/ring", "ipam/space", "ipam/paxos", "ipam/chronicle", "ipam/table", "ipam/wire", "ipam/addr", "ipam/peer", "ipam/codec"},
		"the machine brings the parts together",
	},
}

// shell are the packages under ipam that are not of the core.
var shell = []string{"ipam/node", "ipam/ipamtest"}

// apart are packages of which none may import another (R3).
var apart = []struct {
	packages []string
	reason   string
}{
	{[]string{"ipam/ring", "ipam/space", "ipam/paxos"}, "each is one idea that can be understood and tested alone"},
	{[]string{"persist", "driver", "gossip", "ipam/node"}, "adapters meet only in plugin, so each can be replaced"},
}

// behind are the modules that stand behind few packages (R4).
var behind = []struct {
	module string
	only   []string
	reason string
}{
	{"github.com/hashicorp/memberlist", []string{"gossip", "gossip/memnet"}, "what carries bytes between peers can be replaced without the rest knowing"},
	{"go.etcd.io/bbolt", []string{"persist"}, "the file format is persist's secret"},
	{"github.com/docker/go-plugins-helpers", []string{"driver"}, "the protocol's types stop at the driver"},
	{"github.com/vishvananda/netlink", []string{"plugin/announce"}, "what the kernel's interfaces and neighbours are is asked in one place"},
	{"github.com/docker/docker", []string{"plugin/dockerd"}, "the engine's client is large and changes often"},
}

// absent is what the binary must not contain (R6).
var absent = []struct{ path, reason string }{
	{"testing", "it registers flags and is only of use to tests"},
	{ours + "ipam/ipamtest", "the simulated cluster is test equipment"},
	{ours + "gossip/memnet", "the network in memory is test equipment"},
	{ours + "internal/golden", "it imports testing"},
	{ours + "internal/bubble", "it imports testing"},
	{ours + "internal/heap", "it stops the world, twice, for tests that measure"},
}
