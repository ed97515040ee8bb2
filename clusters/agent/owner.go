package agent

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// UsedFor is how long after its last request a run still uses an agent with a leash. Another run that
// begins to use it has it heal everything first.
const UsedFor = 6 * time.Second

// Requests of another run than the one that uses an agent. Those in others read, or end a fault by its
// handle, which no other run has. Those in ended end one that the agent has already ended.
var (
	others = []string{"process", "connections", "clock", "counters", "link", "impairment-support", "etcd", "restore", "unshift", "unfill", "unwipe", "withdraw"}
	ended  = []string{"start", "thaw", "end-crash-loop", "unspoil"}
)

// owner is the run that uses the agent.
type owner struct {
	mu    sync.Mutex
	run   string
	asked time.Duration // when its last request came, since the boot of the node
}

// claim counts a request of a run, which uses the agent from now on, unless another one does: then it
// returns that one.
func (o *owner) claim(run string) (other string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := sinceBoot()
	if o.run != "" && o.run != run && now-o.asked < UsedFor {
		return o.run
	}
	o.run, o.asked = run, now
	return ""
}

func (o *owner) last() (run string, asked time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.run, o.asked
}

// forOther answers a request that must not reach the faults of the run that uses the agent, and reports
// whether it did. Only an agent with a leash has runs that do not know each other.
func (a *agent) forOther(w http.ResponseWriter, r *http.Request) bool {
	if a.config.Leash == 0 {
		return false
	}
	run, verb := a.owner.claim(r.Header.Get(agenthttp.RunHeader)), strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case run == "" || r.Method == http.MethodGet || slices.Contains(others, verb):
		return false
	case slices.Contains(ended, verb):
		_, _ = w.Write([]byte("null"))
	default:
		agenthttp.Error(w, agenthttp.OtherRun(fmt.Sprintf("another run of holdfast uses the agent (%s)", run)))
	}
	return true
}
