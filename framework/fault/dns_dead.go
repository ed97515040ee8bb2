package fault

import "github.com/holdfast-ha/holdfast/framework"

// DNSDead makes DNS fall silent.
var DNSDead = onNames(&Fault{
	Name:    "dns-dead",
	Summary: "makes DNS leave the questions of hosts without an answer",
	Example: "harness",
}, func(Request) (framework.NameDisturbance, func(framework.Lookup) bool) {
	return framework.NameDisturbance{Silent: true}, gaveUp
})
