package judges

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// leastPaths is how many paths every kind of unknown client must have requested: a Kubernetes API
// server has several hundred.
const leastPaths = 20

var unknownReadsNothing = Definition{Doc{
	Name:      "unknown-reads-nothing",
	Guarantee: "A client without credentials, with a certificate of a foreign CA or with an invalid token reads nothing from any API server but health checks and the version.",
	Source:    "Kubernetes documentation, Controlling access to the Kubernetes API; default role system:public-info-viewer",
}, judgeUnknownReadsNothing}

func judgeUnknownReadsNothing(m *facts.Case) Finding {
	_, to := m.Quiet()
	servers := m.APIServers()
	last := map[[2]string]record.Op{} // by API server and kind of client
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != facts.PurposeUnknownReader || op.Call > to {
			continue
		}
		// The path comes first, then how often each status was answered.
		path, _, _ := strings.Cut(op.Error, "; ")
		switch {
		case op.Outcome == record.OK && op.Found:
			return Failed("An API server must serve nothing but health checks and the version to clients that it does not know: %s served %s to %s.",
				op.Entrance, path, text.Stranger[op.Key]).Shows(text.Describe(op), op.Error)
		case op.Outcome == record.OK && path != "":
			return Failed("An API server must not let unknown clients read any object: %s answered %s that the object at %s does not exist, instead of refusing the request.",
				op.Entrance, text.Stranger[op.Key], path).Shows(text.Describe(op), op.Error)
		}
		last[[2]string{op.Entrance, op.Key}] = op
	}
	var missing []string
	asked := 0
	for _, s := range servers {
		for _, kind := range []string{"anonymous", "foreign CA", "invalid token"} {
			op, made := last[[2]string{s, kind}]
			paths, _ := strconv.Atoi(op.Value)
			why := op.Error
			switch {
			case made && op.Outcome == record.Refused && paths >= leastPaths:
				asked += paths
				continue
			case made && op.Outcome == record.Refused:
				why = fmt.Sprintf("it asked for %d paths, at least %d are needed", paths, leastPaths)
			}
			missing = append(missing, strings.TrimSuffix(fmt.Sprintf("%s at %s: %s", text.Stranger[kind], s, why), ": "))
		}
	}
	if len(servers) == 0 || len(missing) > 0 {
		return Inconclusive("not every API server refused every path to every kind of unknown client: %s", strings.Join(missing, "; ")).
			counted("%d requests refused", asked)
	}
	return Passed("Each API server (%s) refused every path but health checks and the version to clients without credentials, with a certificate of a foreign CA and with an invalid token: %d requests.",
		text.And(servers), asked).counted("%d requests refused", asked)
}
