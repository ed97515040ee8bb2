package observe

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	steadyEach    = 250 * time.Millisecond
	steadyTimeout = 2 * time.Second
)

// SteadyState waits at most limit until the control plane itself is healthy, twice in a row with
// the same leader: every entrance answers /readyz on a new connection, every etcd member answers,
// all belong to one cluster and follow one leader, which is one of them, and none has an alarm.
// Took is the time until the first of the two. Endpoints and leases do not count, since
// requirements cover them.
//
// Problems are the last problems found. The caller fills in the phase and records it.
func SteadyState(ctx context.Context, c framework.Cluster, limit time.Duration) record.Steady {
	start := time.Now()
	s := record.Steady{Limit: limit}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	check, err := newSteadyCheck(c)
	if err != nil {
		s.Took, s.Problems = time.Since(start), []string{err.Error()}
		return s
	}
	defer check.close()
	var held time.Duration
	before := ""
	for {
		took := time.Since(start)
		leader, problems := check.round(ctx)
		switch {
		case len(problems) > 0:
			// A round that the limit cut short reports less than the previous one.
			if ctx.Err() == nil || len(s.Problems) == 0 {
				s.Problems = problems
			}
			before = ""
		case before == leader:
			s.OK, s.Took, s.Problems = true, held, nil
			return s
		default:
			held, before = took, leader
			s.Problems = []string{"it held once, and was not seen to hold a second time"}
		}
		if !client.Pause(ctx, steadyEach) {
			s.Took = time.Since(start)
			return s
		}
	}
}

type steadyCheck struct {
	entrances []framework.Entrance
	apis      []*client.API
	members   []etcdMember
}

func newSteadyCheck(c framework.Cluster) (*steadyCheck, error) {
	s := &steadyCheck{entrances: c.Entrances()}
	if len(s.entrances) == 0 {
		return nil, fmt.Errorf("cluster %s has no entrance", c.Name())
	}
	for _, e := range s.entrances {
		api, err := client.NewAPI(e.Config, client.Options{NewConnections: true})
		if err != nil {
			return nil, fmt.Errorf("entrance %s: %w", e.Name, err)
		}
		s.apis = append(s.apis, api)
	}
	var err error
	s.members, err = openMembers(c, c.Nodes())
	return s, err
}

func (s *steadyCheck) close() { closeMembers(s.members) }

// round checks everything once, in parallel. leader names etcd's leader and term.
func (s *steadyCheck) round(ctx context.Context) (leader string, problems []string) {
	var states []record.EtcdStatus
	var etcd sync.WaitGroup
	etcd.Go(func() {
		states = framework.Map(s.members, func(m etcdMember) record.EtcdStatus { return m.status(ctx) })
	})
	ready := framework.Map(s.apis, func(api *client.API) string {
		ctx, cancel := context.WithTimeout(ctx, steadyTimeout)
		defer cancel()
		return api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/readyz"}).Problem()
	})
	etcd.Wait()
	for i, p := range ready {
		if p != "" {
			problems = append(problems, fmt.Sprintf("/readyz through %s: %s", s.entrances[i].Name, p))
		}
	}
	return etcdLeader(states), append(problems, etcdProblems(states)...)
}

func etcdLeader(states []record.EtcdStatus) string {
	if len(states) == 0 {
		return "no member to query"
	}
	return fmt.Sprintf("%s in term %d", states[0].Leader, states[0].Term)
}

func etcdProblems(states []record.EtcdStatus) (problems []string) {
	var ids []string
	for _, s := range states {
		ids = append(ids, s.Member)
	}
	var first *record.EtcdStatus // the first one that answered
	for i, s := range states {
		switch {
		case !s.OK:
			problems = append(problems, fmt.Sprintf("etcd on %s: %s", s.Node, s.Error))
			continue
		case s.Leader == "":
			problems = append(problems, fmt.Sprintf("etcd on %s knows no leader", s.Node))
		case !slices.Contains(ids, s.Leader) && !slices.ContainsFunc(states, func(o record.EtcdStatus) bool { return !o.OK }):
			problems = append(problems, fmt.Sprintf("etcd on %s follows %s, which is not one of the members", s.Node, s.Leader))
		}
		if len(s.Alarms) > 0 {
			problems = append(problems, fmt.Sprintf("etcd on %s has an alarm: %s", s.Node, strings.Join(s.Alarms, ", ")))
		}
		if first == nil {
			first = &states[i]
			continue
		}
		if s.Cluster != first.Cluster {
			problems = append(problems, fmt.Sprintf("etcd on %s has cluster ID %s, on %s %s", s.Node, s.Cluster, first.Node, first.Cluster))
		}
		if s.Leader != "" && first.Leader != "" && (s.Leader != first.Leader || s.Term != first.Term) {
			problems = append(problems, fmt.Sprintf("etcd on %s follows %s in term %d, on %s %s in term %d",
				s.Node, s.Leader, s.Term, first.Node, first.Leader, first.Term))
		}
	}
	return problems
}
