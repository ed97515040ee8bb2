package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// A cluster that has just lost its etcd is not ready, whatever its API servers say.
func TestStatusJudge(t *testing.T) {
	host := func(name string, pid int, member string) HostStatus {
		return HostStatus{Name: name, Powered: true, Components: []framework.Process{{Component: framework.Etcd, PID: pid}}, Etcd: &EtcdStatus{Error: member}}
	}
	off := HostStatus{Name: "node-3", Components: []framework.Process{{Component: framework.Etcd}}, Etcd: &EtcdStatus{Error: "does not answer"}}
	standby := HostStatus{Name: "node-4", Powered: true, Components: []framework.Process{{Component: framework.Scheduler, Standby: true}}}
	serving := []EntranceStatus{{Name: "balancer", Ready: true}, {Name: "node-1", Ready: true}}
	for _, tc := range []struct {
		name  string
		s     Status
		ready bool
		want  []string
	}{
		{"healthy", Status{Hosts: []HostStatus{host("node-1", 7, ""), standby}, Entrances: serving}, true, []string{}},
		{"the only member was killed", Status{Hosts: []HostStatus{host("node-1", 0, "refuses connections")}, Entrances: serving}, false,
			[]string{"etcd on node-1 is down", "etcd has no quorum: 0 of 1 members answer"}},
		{"one of three is off", Status{Hosts: []HostStatus{host("node-1", 7, ""), host("node-2", 8, ""), off}, Entrances: serving}, true, []string{"node-3 is powered off"}},
		{"two of three do not answer", Status{Hosts: []HostStatus{host("node-1", 7, ""), host("node-2", 8, "does not answer"), off}, Entrances: serving}, false,
			[]string{"node-3 is powered off", "etcd has no quorum: 1 of 3 members answer"}},
		{"an API server is not ready", Status{Hosts: []HostStatus{host("node-1", 7, "")}, Entrances: []EntranceStatus{{Name: "node-1", Error: "fails the checks etcd"}}}, false,
			[]string{"node-1 is not ready: it fails the checks etcd"}},
	} {
		tc.s.judge()
		if tc.s.Ready != tc.ready || !slices.Equal(tc.s.Problems, tc.want) {
			t.Errorf("%s: ready %v, problems %q, want %q", tc.name, tc.s.Ready, tc.s.Problems, tc.want)
		}
	}
}

// Errors of requests are in an engineer's words.
func TestWords(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refuses connections: no process listens there"},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, "cannot be reached: no route to its machine"},
		{fmt.Errorf("Get: %w", context.DeadlineExceeded), "does not answer"},
		{await.StatusError{Code: 500, Body: "[+]ping ok\n[-]etcd failed: reason withheld\n[-]informer-sync failed: reason withheld\nreadyz check failed"}, "fails the checks etcd, informer-sync"},
		{await.StatusError{Code: 403}, "answers with status 403"},
		{errors.New("something else"), "something else"},
	} {
		if got := words(tc.err); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}
