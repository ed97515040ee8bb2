package agenthttp

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// RunHeader names the run that sends a request.
const RunHeader = "Holdfast-Run"

// Run names this process among the runs that may use the same agent.
var Run = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("process %d on %s, started %s", os.Getpid(), url.PathEscape(host), time.Now().UTC().Format(time.RFC3339))
})

// OtherRun is the error of an agent that another run uses, which it names. It is framework.ErrNothingDone.
type OtherRun string

func (e OtherRun) Error() string { return string(e) }

// Is makes it framework.ErrNothingDone.
func (e OtherRun) Is(target error) bool { return target == framework.ErrNothingDone }

// otherRunStatus is the status of an answer that means OtherRun.
const otherRunStatus = http.StatusLocked
