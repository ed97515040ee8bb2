package fault

import (
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// establishedParam narrows an impairment to the connections that exist when it starts.
var establishedParam = boolParam("established", "true: only TCP connections that exist when it starts, so that new ones work; false: new connections as well", false)

// BlackHole makes connections of a target go silent.
var BlackHole = onLinks(&Fault{
	Name:    "black-hole",
	Summary: "makes connections between a target and its peers go silent: no data, FIN or RST arrives, as when a firewall drops their state",
	Params:  []Param{establishedParam},
	Example: "apiserver/2 peer=balancer",
	Effects: does(record.EffectNetwork, record.EffectPartitioned),
}, func(r Request) framework.Impairment {
	return framework.Impairment{Cut: true, Established: Value[bool](r, "established")}
}, drops)
