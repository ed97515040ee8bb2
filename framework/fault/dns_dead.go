package fault

import "github.com/holdfast-ha/holdfast/framework"

// DNSDead makes DNS fall silent.
var DNSDead = onNames(&Fault{
	Name:    "dns-dead",
	Summary: "makes DNS ignore the queries of hosts",
	Example: "harness",
}, func(Request) (framework.NameDisturbance, func(framework.Lookup) bool) {
	return framework.NameDisturbance{Silent: true}, gaveUp
})
