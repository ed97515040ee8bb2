package scaling

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework"
)

// The last step is rolled back first, and all of them, even if the caller no longer waits.
func TestUndo(t *testing.T) {
	var back Undo
	var done []string
	step := func(name string, err error) {
		back.Add(func(ctx context.Context) error {
			done = append(done, name)
			return errors.Join(err, ctx.Err())
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	step("first", nil)
	step("second", errors.New("stuck"))
	step("third", nil)
	if err := back.All(ctx); err == nil || err.Error() != "not all of it could be undone: stuck" {
		t.Error(err)
	}
	if !slices.Equal(done, []string{"third", "second", "first"}) {
		t.Error(done)
	}
}

// fakeNode has an API server that does not end when it is asked to.
type fakeNode struct {
	mu   sync.Mutex
	did  []string
	away error // what Kill returns
}

func (n *fakeNode) note(what string, c framework.Component) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.did = append(n.did, what+" "+string(c))
}

func (n *fakeNode) Stop(_ context.Context, c framework.Component, hold time.Duration) error {
	if c == framework.APIServer || hold != drainHold {
		return errors.New("it goes on")
	}
	n.note("stop", c)
	return nil
}

func (n *fakeNode) Kill(_ context.Context, c framework.Component, _ time.Duration) error {
	n.note("kill", c)
	return n.away
}

func (n *fakeNode) Start(_ context.Context, c framework.Component) error {
	n.note("start", c)
	return nil
}

func TestDrain(t *testing.T) {
	n := &fakeNode{}
	if err := Drain(t.Context(), "node-1", n); err != nil {
		t.Error(err)
	}
	slices.Sort(n.did)
	if got := strings.Join(n.did, ", "); got != "kill kube-apiserver, stop kube-controller-manager, stop kube-scheduler" {
		t.Error(got)
	}
	for away, want := range map[error]string{
		errors.New("no route to it"):                            "not all of them are known to be stopped: no route to it",
		framework.Untouched{Err: errors.New("it does not run")}: "none of their processes is left",
	} {
		proof := ""
		ctx := framework.WithSteps(t.Context(), func(s framework.Step) error { proof = s.Proof; return nil })
		if err := Drain(ctx, "node-1", &fakeNode{away: away}); err != nil || proof != want {
			t.Errorf("%v: the proof is %q, and the error %v", away, proof, err)
		}
	}
	n.did = nil
	if err := Undrain(t.Context(), n); err != nil || len(n.did) != 3 {
		t.Error(n.did, err)
	}
}

// TestQuorumBeside: a restart leaves all votes, so with four members two may not be away.
func TestQuorumBeside(t *testing.T) {
	up := serve(t, &stalling{})[0].Config
	down := func(context.Context) (clientv3.Config, error) { return clientv3.Config{}, errors.New("no power") }
	for _, tc := range []struct {
		voters, down int
		want         string
	}{
		{1, 0, ""}, {2, 0, ""}, {3, 0, ""}, {4, 0, ""}, {5, 1, ""},
		{2, 1, "0 of 2 etcd members would answer while the one on 1 restarts, and the quorum is 1: start what is down (2) first"},
		{3, 1, "1 of 3"}, {4, 1, "2 of 4"}, {6, 2, "3 of 6"}, {5, 2, "2 of 5"},
	} {
		var all Members
		for i := range tc.voters {
			m := Member{Node: strconv.Itoa(i + 1), Config: up}
			if i >= tc.voters-tc.down {
				m.Config = down
			}
			all = append(all, m)
		}
		err := all.QuorumBeside(t.Context(), "1")
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%d members, %d down: %v", tc.voters, tc.down, err)
		}
	}
}

// Without a quorum nothing is changed, and who is down is named.
func TestQuorum(t *testing.T) {
	down := func(context.Context) (clientv3.Config, error) { return clientv3.Config{}, errors.New("no power") }
	all := Members{{Node: "a", Config: down}, {Node: "b", Config: down}, {Node: "c", Config: down}}
	if err := all.QuorumWithout(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "0 of 3 etcd members answer") {
		t.Error(err)
	}
	if err := all.QuorumWith(t.Context()); err == nil || !strings.Contains(err.Error(), "on a, b, c is down") {
		t.Error(err)
	}
	if _, err := all.List(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd on b: no power") {
		t.Error(err)
	}
	if err := all.HandOn(t.Context(), "a"); err != nil { // no member leads
		t.Error(err)
	}
}

// stalling are the members of a cluster whose leader, once it has removed a member, answers
// nothing for a while, as long as writes to that member hang.
type stalling struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	mu      sync.Mutex
	members []*pb.Member
	until   time.Time
	// proposed are members that the next write commits. interrupt is called by MemberAdd.
	proposed  []*pb.Member
	interrupt func()
	refuses   error // a write, once it is committed
}

func (s *stalling) DeleteRange(context.Context, *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members, s.proposed = append(s.members, s.proposed...), nil
	return &pb.DeleteRangeResponse{}, s.refuses
}

func (s *stalling) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	s.interrupt()
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &pb.Member{ID: 0xab, PeerURLs: r.PeerURLs, IsLearner: r.IsLearner}
	s.members = append(s.members, added)
	return &pb.MemberAddResponse{Member: added}, nil
}

// serve serves the members until the end of the test; the one at a is a node's.
func serve(t *testing.T, s *stalling) Members {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterClusterServer(server, s)
	pb.RegisterKVServer(server, s)
	pb.RegisterMaintenanceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return Members{{Node: "a", PeerURL: "a", Config: func(context.Context) (clientv3.Config, error) {
		return clientv3.Config{Endpoints: []string{listener.Addr().String()}}, nil
	}}}
}

func (s *stalling) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{}}, nil
}

func (s *stalling) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	s.mu.Lock()
	stall := time.Until(s.until)
	s.mu.Unlock()
	select {
	case <-time.After(stall):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.MemberListResponse{Members: slices.Clone(s.members)}, nil
}

func (s *stalling) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m *pb.Member) bool { return m.ID == r.ID })
	s.until = time.Now().Add(MemberCall + time.Second/2)
	return &pb.MemberRemoveResponse{}, nil
}

// A removal, and what shows it, wait for a leader that stalls. The member is stopped once it is removed.
func TestTakeOut(t *testing.T) {
	n := &fakeNode{}
	all := serve(t, &stalling{members: []*pb.Member{{ID: 1, PeerURLs: []string{"a"}}, {ID: 2, PeerURLs: []string{"b"}}}})
	var steps []string
	ctx := framework.WithSteps(t.Context(), func(s framework.Step) error { steps = append(steps, s.Proof); return nil })
	if err := TakeOut(ctx, all, "b", "b", n); err != nil || steps[len(steps)-1] != "etcd has 1 members, 1 of which vote" {
		t.Errorf("%q, %v", steps, err)
	}
	if !slices.Equal(n.did, []string{"stop etcd"}) {
		t.Errorf("%q", n.did)
	}
}

// A learner whose addition was interrupted, and is committed later, is removed too.
func TestRemoveProposed(t *testing.T) {
	for _, alarm := range []error{nil, rpctypes.ErrGRPCCorrupt} {
		s := &stalling{members: []*pb.Member{{ID: 1, PeerURLs: []string{"a"}}}, proposed: []*pb.Member{{ID: 2, PeerURLs: []string{"b"}}}, refuses: alarm}
		all := serve(t, s)
		if err := all.Remove(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if len(s.members) != 1 || len(s.proposed) != 0 {
			t.Errorf("alarm %v: members %v, proposed %v", alarm, s.members, s.proposed)
		}
	}
}

// Adding a learner is complete even if its caller does not wait.
func TestAddLearner(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &stalling{members: []*pb.Member{{ID: 1, PeerURLs: []string{"a"}}}, interrupt: cancel}
	all := serve(t, s)
	cutShort := errors.New("cut short")
	reported := framework.WithSteps(ctx, func(s framework.Step) error { return fmt.Errorf("%w after %s", cutShort, s.Name) })
	if err := AddLearner(reported, all, "b", "http://b:2380"); !errors.Is(err, cutShort) {
		t.Errorf("an interruption after the step: %v", err)
	}
	if err := all.AreNodes(t.Context()); err == nil || !strings.Contains(err.Error(), "`holdfast shell a -- etcdctl member remove ab`") {
		t.Error(err)
	}
}
