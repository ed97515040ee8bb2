package fault

import "github.com/holdfast-ha/holdfast/framework"

const establishedDoc = "true: only TCP connections that were there when it began, so that new ones get through; false (default): new ones too"

// BlackHole lets connections of a target fall silent.
var BlackHole Fault = &linkFault{
	name:    "black-hole",
	summary: "lets connections between a target and its peers fall silent: neither data nor an end comes through, as when a firewall forgets them",
	params:  map[string]string{"established": establishedDoc},
	example: "apiserver/2 peer=balancer",
	read: func(f Fault, p Params) (framework.Impairment, error) {
		established, err := boolParam(f, p, "established")
		return framework.Impairment{Cut: true, Established: established}, err
	},
	shows: drops,
}
