package fault

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// DNSSlow makes DNS slow.
var DNSSlow = onNames(&Fault{
	Name:    "dns-slow",
	Summary: "makes DNS hold back its answers to hosts; programs that time out earlier receive none",
	Params:  []Param{durationParam("delay", "how long each answer is held back", 500*time.Millisecond, 10*time.Millisecond, 30*time.Second)},
	Example: "workers delay=500ms",
}, func(r Request) (framework.NameDisturbance, func(framework.Lookup) bool) {
	delay := Value[time.Duration](r, "delay")
	return framework.NameDisturbance{Delay: delay}, late(delay)
})

// resolverWait is how long a program on a node waits for the answer to a query, by the resolv.conf of
// the local provider, the only one with this fault.
const resolverWait = time.Second

// late reports whether a lookup shows that answers are held back for a delay. Only if that is
// longer than programs wait may there be none.
func late(delay time.Duration) func(framework.Lookup) bool {
	return func(l framework.Lookup) bool {
		return l.Took >= min(delay, resolverWait) && (delay >= resolverWait || !gaveUp(l))
	}
}
