package remote

import (
	"strings"
	"testing"
)

// TestCheckRejoin: a member is only removed where it can be started as one that joins again.
func TestCheckRejoin(t *testing.T) {
	for _, tc := range []struct{ distribution, seen, want string }{
		{"kubeadm", kubeadmNode(), ""},
		{"systemd", systemdNode + systemdUnits, "only those of a static pod can be changed"},
		{"k0s", k0sNode(), "only those of a static pod can be changed"},
		{"processes", systemdNode, "only those of a static pod can be changed"},
		{"k3s", k3sNode(), "its etcd is one process with other components"},
	} {
		s, err := parseSight(tc.seen)
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect(tc.distribution, testNode(), s)
		if err != nil {
			t.Fatal(err)
		}
		err = (&node{found: f}).CheckRejoin()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.distribution, err, tc.want)
		}
	}
}
