package judges

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// certificatesLeast is for how long certificates must still be valid: kubeadm warns from
// then on (kubeadm certs check-expiration).
const certificatesLeast = 30 * 24 * time.Hour

var certificatesLast = Definition{Doc{
	Name:      "certificates-last",
	Guarantee: "No certificate with which a component of the control plane serves expires within 30 days.",
	Source:    "Kubernetes documentation, Certificate management with kubeadm",
}, judgeCertificatesLast}

func judgeCertificatesLast(m *facts.Case) Finding {
	_, to := m.Quiet()
	first, which, seen := time.Time{}, "", map[[2]string]bool{}
	unseen := map[[2]string]bool{} // ports whose certificate was not shown
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != facts.PurposeExpiry || op.Call > to {
			continue
		}
		if op.Outcome != record.OK {
			unseen[[2]string{op.Entrance, op.Key}] = true
			continue
		}
		end, err := time.Parse(time.RFC3339, op.Value)
		if err != nil {
			return Inconclusive("the record has %q as the expiry date of %s on %s", op.Value, op.Key, op.Entrance)
		}
		name := fmt.Sprintf("that of %s on %s", op.Key, op.Entrance)
		if left := end.Sub(m.Run.Meta.Started.Add(time.Duration(op.Call))); left < certificatesLeast {
			return Failed("No certificate may expire within 30 days: %s does on %s.", name, end.Format(time.DateOnly)).Shows(text.Describe(op))
		}
		seen[[2]string{op.Entrance, op.Key}] = true
		if which == "" || end.Before(first) {
			first, which = end, name
		}
	}
	var missing []string
	for _, component := range []string{"etcd", "kube-apiserver"} {
		for _, n := range m.NodesWith(component) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(at [2]string) bool { return at[0] == n.Name && strings.HasPrefix(at[1], component+"/") }) {
				missing = append(missing, component+" on "+n.Name)
				continue
			}
			for _, at := range slices.SortedFunc(maps.Keys(unseen), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
				if port, ok := strings.CutPrefix(at[1], component+"/"); ok && at[0] == n.Name && !seen[at] {
					missing = append(missing, fmt.Sprintf("%s on %s (%s port)", component, n.Name, port))
				}
			}
		}
	}
	onlyEtcd := !slices.ContainsFunc(missing, func(m string) bool { return !strings.HasPrefix(m, "etcd ") })
	if len(missing) > 0 && onlyEtcd && slices.Contains(m.Run.Meta.NoAccess, record.EtcdMembers) {
		return notApplicable("It cannot be tested here whether certificates of etcd expire: the provider gives no access to etcd members. Those of API servers are valid for at least 30 days.")
	}
	if len(missing) > 0 || len(seen) == 0 {
		return Inconclusive("the expiry date of a certificate was not observed: %s", text.And(missing))
	}
	return Passed("All %d certificates are valid for at least 30 days; the first to expire is %s, on %s.", len(seen), which, first.Format(time.DateOnly)).
		number(len(seen), "certificate")
}
