package judge

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func faultDomains() definition {
	return definition{Doc{
		Name:      "fault-domains",
		Guarantee: "Control-plane nodes are spread over fault domains so that losing any one of them keeps etcd's quorum.",
		Source:    "Automated HA master deployment (zones)",
	}, judgeFaultDomains}
}

func judgeFaultDomains(m *matter) finding {
	nodes := m.nodesWith("etcd")
	if len(nodes) == 0 {
		return notApplicable("No control-plane node runs etcd, so that their fault domains say nothing of its quorum.")
	}
	voters, members := 0, map[string][]string{}
	for _, n := range nodes {
		switch {
		case m.learns(n.Name):
			continue // it has no vote to lose
		case n.Zone == "":
			return notApplicable("The cluster does not tell the fault domain of %s.", n.Name)
		}
		voters++
		members[n.Zone] = append(members[n.Zone], n.Name)
	}
	quorum := voters/2 + 1
	var spread []string
	for _, zone := range slices.Sorted(maps.Keys(members)) {
		lost := members[zone]
		if voters-len(lost) < quorum {
			return failed("Losing one fault domain must keep etcd's quorum: with %s go %d of %d voting members (%s), and %d are left where %d are needed.",
				zone, len(lost), voters, and(lost), voters-len(lost), quorum).counted("%d fault domains", len(members))
		}
		spread = append(spread, fmt.Sprintf("%s in %s", and(lost), zone))
	}
	return passed("Losing any one of %d fault domains leaves etcd the %d of %d voting members that it needs: %s.", len(members), quorum, voters, and(spread)).
		counted("%d fault domains", len(members))
}

// learns tells whether the etcd member on a node was a learner when it last answered.
func (m *matter) learns(node string) bool {
	last := record.EtcdStatus{}
	for _, e := range m.run.Etcd {
		if e.V.Node == node && e.V.OK {
			last = e.V
		}
	}
	return last.Learner
}
