package judges

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

var faultDomains = Definition{Doc{
	Name:      "fault-domains",
	Guarantee: "Control-plane nodes are spread over fault domains so that losing any one of them keeps etcd's quorum.",
	Source:    "Automated HA master deployment (zones)",
}, judgeFaultDomains}

func judgeFaultDomains(m *facts.Case) Finding {
	nodes := m.NodesWith("etcd")
	if len(nodes) == 0 {
		return notApplicable("No control-plane node runs etcd, so their fault domains do not matter for its quorum.")
	}
	voters, members := 0, map[string][]string{}
	for _, n := range nodes {
		switch {
		case facts.LastStatus(m.Run, n.Name, math.MaxInt64).Learner:
			continue // it has no vote to lose
		case n.Zone == "":
			return notApplicable("The cluster does not show the fault domain of %s.", n.Name)
		}
		voters++
		members[n.Zone] = append(members[n.Zone], n.Name)
	}
	quorum := voters/2 + 1
	var spread []string
	for _, zone := range slices.Sorted(maps.Keys(members)) {
		lost := members[zone]
		if voters-len(lost) < quorum {
			return Failed("Losing one fault domain must keep etcd's quorum: %s takes %d of %d voting members with it (%s), and leaves %d where %d are required.",
				zone, len(lost), voters, text.And(lost), voters-len(lost), quorum).counted("%d fault domains", len(members))
		}
		spread = append(spread, fmt.Sprintf("%s in %s", text.And(lost), zone))
	}
	return Passed("Losing any one of %d fault domains leaves etcd the %d of %d voting members that it needs: %s.", len(members), quorum, voters, text.And(spread)).
		counted("%d fault domains", len(members))
}
