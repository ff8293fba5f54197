// Package suspend is whether the database of this peer may be used as it stands, and why not.
//
// A peer is suspended where only an operator can decide: its space was given up, or its database is an old one, a copy,
// or lies at another place than it was written at (R17, R53 to R58). It stays at the slot that it knows, so that nothing
// of its space changes hands under the containers of its host. The gravest reason counts, and those that stay true are
// on disk.
//
// The package refuses to know what a suspended peer still answers. It has no pool and no engine. Of frames it reads only
// those that tell of another start of this peer.
package suspend
