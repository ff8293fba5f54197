// Package cli is ringlet's command line: it asks a running plugin over its
// admin socket and shows the answer to people, or as JSON to scripts. It also
// holds the word that starts the plugin's own process, and makes the same
// binary a plugin of the docker command (docker ringlet status).
//
// It refuses to know how the plugin decides, and what is in its database.
//
// # What scripts can rely on
//
// Exit codes are 0 for fine, 1 for failed, 2 for a wrong command line and 3
// for "works, but somebody should look". With -o json the output is one JSON
// document whose fields are only ever added to; times are RFC 3339. Tables
// are for people: they follow the width of the terminal, and may change.
//
// Colour is for terminals only and never the only signal; NO_COLOR and
// TERM=dumb turn it off. What others chose, such as the name of a container,
// is shown with its control characters escaped, so that it cannot steer the
// terminal.
//
// # Where the plugin is
//
// --socket, or else RINGLET_SOCKET, or else the engine is asked which plugin
// it has. Whatever is wrong on that way, the error says what to do.
//
// Nothing here is safe for concurrent use: one process runs one command.
package cli
