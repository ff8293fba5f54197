package etcd

import (
	"fmt"
	"strings"
)

// labelOf returns the label of the cluster whose key it is; false if it is none.
func labelOf(key string) (label string, ok bool) {
	rest, ok := strings.CutPrefix(key, "ringlet/")
	parts := strings.Split(rest, "/")
	switch {
	case !ok:
	case len(parts) == 2 && (parts[0] == ".heartbeat" || parts[0] == ".cluster"):
		return parts[1], parts[1] != ""
	case len(parts) > 4 && parts[0] == "state":
		return parts[3], parts[3] != ""
	case len(parts) > 2 && parts[0] == "locks":
		return parts[1], parts[1] != ""
	}
	return "", false
}

// labelError is returned where another cluster has the label of this one.
type labelError struct{ label, other string }

// Error says which.
func (e labelError) Error() string {
	return fmt.Sprintf("another cluster (ID %s) has the label %s there: give one of the two another RINGLET_CLUSTER, or remove the key ringlet/.cluster/%s if that cluster is gone", e.other, e.label, e.label)
}
