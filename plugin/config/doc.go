// Package config turns the environment into checked settings.
//
// One table, [Settings], says of each setting its name, default, range,
// meaning, and what a change does on a live cluster. Everything else is made
// from it: [Load] parses by it, the reference of the manual is printed from it
// ([WriteReference]), and a test compares it with the plugin's manifest. A
// default is the text that a user could have written and goes through the same
// parser, since `docker plugin upgrade` applies no default of a new manifest:
// the binary must carry its own.
//
// Load refuses rather than guesses, and says all that is wrong at once: who
// sets up twenty hosts wants one round, not six. A RINGLET_ name that is not
// known is an error too, since a misspelled RINGLET_KEY would otherwise be a
// cluster without encryption. An empty value means the default, as `docker
// plugin set NAME=` has no other way to take a value back.
//
// The package knows what a setting may be by itself and beside the others. It
// does not know what exists: it resolves no name, binds no port, and derives
// neither the IPv6 universe from the cluster's ID nor the advertised address
// from the host's interfaces. The values of secrets are in the [Config] but
// never in an error, and not in what [Config.String] and [Config.LogValue]
// show. All functions are safe for concurrent use; a Config is a plain value
// whose slices are not to be written to.
package config
