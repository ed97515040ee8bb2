package fault

import "github.com/holdfast-ha/holdfast/framework"

// Cut drops every packet on links of a target.
var Cut Fault = &linkFault{
	name:    "cut",
	summary: "drops every packet between a target and its peers, one way or both ways, without a word to either side",
	example: "node/2 direction=in peer=node-1 port=etcd-peer",
	read:    func(Fault, Params) (framework.Impairment, error) { return framework.Impairment{Cut: true}, nil },
	shows:   drops,
}
