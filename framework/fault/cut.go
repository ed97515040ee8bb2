package fault

import "github.com/holdfast-ha/holdfast/framework"

// Cut drops every packet on links of a target.
var Cut = onLinks(&Fault{
	Name:    "cut",
	Summary: "drops every packet between a target and its peers, one way or both ways, without notice to either side",
	Example: "node/2 direction=in peer=node-1 port=etcd-peer",
}, func(Request) framework.Impairment { return framework.Impairment{Cut: true} }, drops)
