// Package identity is the numbers of the label sets that containers have.
//
// Containers that do the same work have the same labels. Each distinct set of those that count gets a number, on all hosts
// the same, which programs can compare and log. A [Registry] is what the cluster has agreed on: which set has which
// number.
//
// A set is a text: see [Text]. A number is given once. The registry keeps the highest one, so a number that was collected
// never comes back, and the set that had it gets a new one where somebody needs it again.
//
// The package refuses to know who has which labels, how a command is decided, and what addresses are.
package identity
