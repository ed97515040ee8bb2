package fault

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// levelState is the state of a priority level that an API server reports.
type levelState struct {
	level              string
	waiting, executing int
	dispatched         int
	refused            int // rejected immediately, or after waiting too long
}

func (s levelState) String() string {
	return fmt.Sprintf("priority level %s: %d requests wait, %d run, %d ran and %d were refused so far", s.level, s.waiting, s.executing, s.dispatched, s.refused)
}

// state reads the state of the user's priority level from the API server, in the table that is
// documented for debugging priority and fairness.
func (o *crowd) state(ctx context.Context) (levelState, error) {
	body, status, err := get(ctx, o.entrance, "/debug/api_priority_and_fairness/dump_priority_levels")
	if err != nil || status != http.StatusOK {
		return levelState{}, fmt.Errorf("priority levels through entrance %s: status %d, %v", o.entrance.Name, status, err)
	}
	return parseLevel(string(body), o.level)
}

// parseLevel finds a level in the table, whose first row names the columns.
func parseLevel(table, level string) (levelState, error) {
	r := csv.NewReader(strings.NewReader(table))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		return levelState{}, fmt.Errorf("table of priority levels %.200q: %v", table, err)
	}
	for _, row := range rows[1:] {
		if len(row) == 0 || row[0] != level {
			continue
		}
		s := levelState{level: level}
		for i, column := range rows[0] {
			if i >= len(row) {
				break
			}
			n, _ := strconv.Atoi(row[i]) // "<none>" of an exempt level
			switch column {
			case "WaitingRequests":
				s.waiting = n
			case "ExecutingRequests":
				s.executing = n
			case "DispatchedRequests":
				s.dispatched = n
			case "RejectedRequests", "TimedoutRequests":
				s.refused += n
			}
		}
		return s, nil
	}
	return levelState{}, fmt.Errorf("the table of priority levels has no %s: %.200q", level, table)
}
