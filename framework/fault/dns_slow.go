package fault

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// DNSSlow makes DNS slow.
var DNSSlow = onNames(&Fault{
	Name:    "dns-slow",
	Summary: "makes DNS hold back its answers to hosts; programs that do not wait that long receive none",
	Params:  []Param{durationParam("delay", "how long each answer is held back", 500*time.Millisecond, 10*time.Millisecond, 30*time.Second)},
	Example: "workers delay=500ms",
}, func(r Request) (framework.NameDisturbance, func(framework.Lookup) bool) {
	delay := Value[time.Duration](r, "delay")
	return framework.NameDisturbance{Delay: delay}, func(l framework.Lookup) bool { return l.Took >= delay || gaveUp(l) }
})
