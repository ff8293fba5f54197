// Package subnets is about subnets as such: which ones containers can use, which addresses of one no host can have, and
// the search for a free one in a universe.
//
// The package refuses to know which subnets are taken, and by what. The caller says so, one subnet at a time.
package subnets
