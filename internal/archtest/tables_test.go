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
	"ipam/identity":            {[]string{"ipam/table", "ipam/codec"}, "the numbers of label sets, without who has which labels"},
	"ipam/chronicle":           {[]string{"ipam/identity", "ipam/lock", "ipam/ring", "ipam/table", "ipam/addr", "ipam/peer", "ipam/codec"}, "the agreed commands, applied in order"},
	"ipam/wire":                {[]string{"ipam/chronicle", "ipam/paxos", "ipam/ring", "ipam/addr", "ipam/peer", "ipam/codec"}, "what peers say, without what follows from it"},
	"ipam/engine":              {[]string{"ipam/effect", "ipam/poolid", "ipam/rule", "ipam/chronicle", "ipam/addr", "ipam/codec"}, "what the host's engine has, without pools, addresses or other peers"},
	"ipam/rule":                {nil, "the names of rules that tests take away, not how they work"},
	"ipam/subnets":             {[]string{"ipam/chronicle", "ipam/addr"}, "which subnets can be used, without which are"},
	"ipam/poolid":              {[]string{"ipam/subnets", "ipam/chronicle", "ipam/addr"}, "what a network asks for, without the pool that it gets"},
	"ipam/effect":              {[]string{"ipam/wire", "ipam/addr", "ipam/peer"}, "what is to be done, without who wants it or why"},
	"ipam/holding":             {[]string{"ipam/effect", "ipam/chronicle", "ipam/space", "ipam/codec", "ipam/addr"}, "the form of an address's record, without what it means"},
	"ipam/replog":              {[]string{"ipam/effect", "ipam/rule", "ipam/wire", "ipam/paxos", "ipam/chronicle", "ipam/peer", "ipam/codec"}, "how commands are decided, without pools, engines, or how a peer knows who lives"},
	"ipam/cluster":             {[]string{"ipam/effect", "ipam/rule", "ipam/paxos", "ipam/chronicle", "ipam/wire", "ipam/peer", "ipam/codec"}, "who is there, without what follows from it"},
	"ipam/trade":               {[]string{"ipam/replog", "ipam/effect", "ipam/wire", "ipam/space", "ipam/ring", "ipam/chronicle", "ipam/addr", "ipam/peer"}, "how space moves, without who holds it or what an engine has"},
	"ipam/sentence":            {[]string{"ipam/chronicle", "ipam/space", "ipam/addr", "ipam/peer"}, "what refusals say, without who is refused or why"},
	"ipam/bootcheck":           {[]string{"ipam/cluster", "ipam/effect", "ipam/rule", "ipam/peer"}, "whether the database is current, without what an answer decides"},
	"ipam/doubt":               {[]string{"ipam/engine", "ipam/effect", "ipam/codec"}, "whose release may come late, without who holds what"},
	"ipam/start":               {[]string{"ipam/engine", "ipam/effect", "ipam/space", "ipam/codec", "ipam/peer"}, "which start of which peer this is, without what follows from it"},
	"ipam/lock":                {[]string{"ipam/table", "ipam/peer", "ipam/codec"}, "which locks are held, without time, and without what is done under them"},
	"ipam/former":              {[]string{"ipam/effect", "ipam/codec"}, "what a former peer of this host has left, without who holds it now"},
	"ipam/conflict":            {[]string{"ipam/chronicle", "ipam/addr"}, "what cannot both be right, without what it is about"},
	"ipam/newdb":               {[]string{"ipam/cluster", "ipam/engine", "ipam/start", "ipam/effect", "ipam/rule", "ipam/wire", "ipam/peer", "ipam/codec"}, "what a new database waits for, without pools, addresses and calls"},
	"ipam/formation":           {[]string{"ipam/cluster", "ipam/effect", "ipam/rule", "ipam/paxos", "ipam/chronicle", "ipam/wire", "ipam/peer", "ipam/codec"}, "how a peer comes into a cluster, without what the cluster is for"},
	"ipam/departure":           {[]string{"ipam/cluster", "ipam/sentence", "ipam/effect", "ipam/rule", "ipam/chronicle", "ipam/wire", "ipam/peer"}, "how a peer leaves the roster, without what becomes of addresses"},
	"ipam/suspend":             {[]string{"ipam/cluster", "ipam/effect", "ipam/rule", "ipam/chronicle", "ipam/wire", "ipam/peer", "ipam/codec"}, "whether the database may be used, without what is answered meanwhile"},
	"ipam/leave":               {[]string{"ipam/cluster", "ipam/effect", "ipam/chronicle", "ipam/codec"}, "the wish to leave, without what is held on the host"},
	"ipam/membership":          {[]string{"ipam/bootcheck", "ipam/chronicle", "ipam/cluster", "ipam/codec", "ipam/departure", "ipam/effect", "ipam/engine", "ipam/formation", "ipam/former", "ipam/leave", "ipam/newdb", "ipam/peer", "ipam/replog", "ipam/rule", "ipam/sentence", "ipam/start", "ipam/suspend", "ipam/wire"}, "whether this peer takes part in its cluster, without pools, spaces and calls"},
	"ipam/warning":             {[]string{"ipam/effect", "ipam/peer", "ipam/codec"}, "what is in use elsewhere, without who holds what here"},
	"ipam/pool":                {[]string{"ipam/call", "ipam/conflict", "ipam/doubt", "ipam/warning", "ipam/newdb", "ipam/start", "ipam/engine", "ipam/effect", "ipam/holding", "ipam/poolid", "ipam/sentence", "ipam/rule", "ipam/chronicle", "ipam/ring", "ipam/space", "ipam/codec", "ipam/addr", "ipam/peer"}, "what this host holds in each pool, without decisions, who lives, and which calls wait"},
	"ipam/survey":              {[]string{"ipam/pool", "ipam/call", "ipam/report", "ipam/conflict", "ipam/engine", "ipam/effect", "ipam/sentence", "ipam/rule", "ipam/chronicle", "ipam/space", "ipam/addr", "ipam/peer"}, "what the engine and the host have of what is held, without how space moves, who lives, and which calls wait"},
	"ipam/report":              {[]string{"ipam/sentence", "ipam/poolid", "ipam/wire", "ipam/chronicle", "ipam/ring", "ipam/space", "ipam/addr", "ipam/peer"}, "what people see, as plain data says, without where that is from"},
	"plugin/directory/replica": {[]string{"ipam/table", "ipam/peer", "ipam/codec", "internal/packed"}, "what every peer says, without what it means or how it travels"},
	"ipam/call":                {[]string{"ipam/engine", "ipam/lock", "ipam/poolid", "ipam/report", "ipam/sentence", "ipam/chronicle", "ipam/space", "ipam/addr"}, "what can be asked, without what is known"},
	"ipam": {
		[]string{
			"ipam/addr",
			"ipam/bootcheck",
			"ipam/call",
			"ipam/chronicle",
			"ipam/cluster",
			"ipam/conflict",
			"ipam/departure",
			"ipam/doubt",
			"ipam/effect",
			"ipam/formation",
			"ipam/former",
			"ipam/membership",
			"ipam/newdb",
			"ipam/holding",
			"ipam/peer",
			"ipam/engine",
			"ipam/identity",
			"ipam/lock",
			"ipam/pool",
			"ipam/poolid",
			"ipam/replog",
			"ipam/report",
			"ipam/ring",
			"ipam/rule",
			"ipam/sentence",
			"ipam/space",
			"ipam/start",
			"ipam/subnets",
			"ipam/survey",
			"ipam/trade",
			"ipam/warning",
			"ipam/wire",
		},
		"the machine brings the parts together",
	},
}

// rooms are parts of the process around the core: what of ours each may import directly, beside what is internal, and what it refuses
// to know (R12).
var rooms = map[string]struct {
	imports []string
	reason  string
}{
	"plugin/fault":      {[]string{"ipam"}, "what is wrong with a part, without which parts there are"},
	"plugin/gate":       {[]string{"driver", "ipam", "ipam/node", "ipam/poolid"}, "what waits for a node, without why there is none"},
	"plugin/serving":    {[]string{"driver", "plugin/certfile", "plugin/fault"}, "listeners, without what is served on them"},
	"plugin/claims":     {[]string{"ipam", "plugin/fault"}, "what is to be claimed again, without how a host starts over"},
	"plugin/networks":   {[]string{"ipam", "ipam/chronicle", "plugin/dockerd"}, "the engine's networks, without who has which address"},
	"plugin/hostnet":    {[]string{"ipam", "ipam/node", "plugin/fault"}, "what the host has on its network, without what is kept from whom"},
	"plugin/keyring":    {[]string{"ipam", "plugin/admin", "plugin/config", "plugin/fault"}, "the keys of this host, without who encrypts with them"},
	"plugin/about":      {[]string{"gossip", "plugin/admin", "plugin/config", "plugin/dockerd", "plugin/keyring", "plugin/logging"}, "what the process is, without the node"},
	"plugin/announcer":  {[]string{"ipam", "ipam/addr", "ipam/node", "plugin/announce", "plugin/dockerd", "plugin/fault", "plugin/metrics"}, "what is to be announced, without when and how"},
	"plugin/prober":     {[]string{"ipam", "ipam/addr", "ipam/node", "ipam/poolid", "plugin/arp", "plugin/fault", "plugin/metrics"}, "whether another device has an address, without who gets it"},
	"plugin/calls":      {[]string{"ipam", "ipam/node", "plugin/decided", "plugin/dockerd", "plugin/hostnet", "plugin/networks"}, "what is done before and after a request, without its protocol"},
	"plugin/inventory":  {[]string{"ipam", "ipam/node", "plugin/decided", "plugin/dockerd", "plugin/hostnet", "plugin/networks"}, "who reads a list of the engine, without when it lists"},
	"plugin/peers":      {[]string{"gossip", "ipam", "ipam/node", "ipam/peer", "ipam/wire", "plugin/admin", "plugin/config", "plugin/directory", "plugin/events"}, "who uses the network between peers, without how frames travel"},
	"plugin/coreconfig": {[]string{"gossip", "ipam", "ipam/addr", "ipam/chronicle", "ipam/peer", "plugin/config", "plugin/identity"}, "the settings of the core, without what it does with them"},
	"plugin/status":     {[]string{"ipam", "ipam/node", "plugin/admin", "plugin/database", "plugin/decided", "plugin/directory", "plugin/dockerd", "plugin/fault", "plugin/networks"}, "what operators see, without how a part finds out what is wrong with it"},
	"plugin/history":    {[]string{"ipam", "ipam/node", "plugin/events", "plugin/fault", "plugin/journal"}, "what the journal is to know of the node, without how it is kept"},
	"plugin/health":     {[]string{"ipam", "plugin/fault"}, "whether health addresses answer, without how gossip does and who has which address"},
	"plugin/entry":      {[]string{"ipam/identity", "ipam/peer", "plugin/directory", "plugin/dockerd", "plugin/fault"}, "what this host says of itself, without who reads it"},
	"plugin/crashes":    {[]string{"ipam/node", "plugin/fault"}, "what errors of the program leave behind, without what runs"},
	"plugin/startover":  {[]string{"ipam", "ipam/node", "persist", "plugin/admin"}, "that a host starts over, without how a node is built"},
	"plugin/standby":    {[]string{"ipam", "ipam/node", "plugin/admin", "plugin/database", "plugin/dockerd", "plugin/fault", "plugin/serving"}, "what stands in for the node, without why there is none"},
	"plugin/identity":   {[]string{"plugin/dockerd"}, "which machine this is, without what follows from it"},
	"plugin/decided":    {[]string{"ipam", "plugin/decisions", "plugin/dockerd", "plugin/fault", "plugin/networks"}, "that decisions outlive the database, without what they are"},
	"plugin/database":   {[]string{"ipam", "ipam/node", "persist", "plugin/decisions", "plugin/fault"}, "the database's file, without what is in it"},
}

// shell are the packages under ipam that are not of the core.
var shell = []string{"ipam/node", "ipam/ipamtest", "ipam/machinetest"}

// apart are packages of which none may import another (R3).
var apart = []struct {
	packages []string
	reason   string
}{
	{[]string{"ipam/ring", "ipam/space", "ipam/paxos"}, "each is one idea that can be understood and tested alone"},
	{[]string{"persist", "driver", "gossip", "ipam/node"}, "adapters meet only in plugin, so each can be replaced"},
	{[]string{"persist/wal", "persist/boltfile"}, "a log and a file are brought together by persist alone"},
}

// behind are the modules that stand behind few packages (R4).
var behind = []struct {
	module string
	only   []string
	reason string
}{
	{"github.com/hashicorp/memberlist", []string{"gossip", "gossip/memnet"}, "what carries bytes between peers can be replaced without the rest knowing"},
	{"go.etcd.io/bbolt", []string{"persist"}, "the file format is persist's secret"},
	{"go.etcd.io/etcd", []string{"plugin/etcd"}, "who needs no copy in an etcd needs no etcd"},
	{"github.com/docker/go-plugins-helpers", []string{"driver"}, "the protocol's types stop at the driver"},
	{"github.com/vishvananda/netlink", []string{"internal/kernelnet", "plugin/announce"}, "what the kernel's interfaces and neighbours are is asked in one place"},
	{"github.com/docker/docker", []string{"plugin/dockerd"}, "the engine's client is large and changes often"},
}

// absent is what the binary must not contain (R6).
var absent = []struct{ path, reason string }{
	{"testing", "it registers flags and is only of use to tests"},
	{ours + "plugin/plugintest", "it imports testing"},
	{ours + "ipam/ipamtest", "the simulated cluster is test equipment"},
	{ours + "ipam/machinetest", "so is the single host"},
	{ours + "gossip/memnet", "the network in memory is test equipment"},
	{ours + "internal/golden", "it imports testing"},
	{ours + "internal/bubble", "it imports testing"},
	{ours + "internal/namespace", "it imports testing"},
	{ours + "internal/heap", "it stops the world, twice, for tests that measure"},
}
