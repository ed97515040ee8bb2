package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// memberCall is how long one etcd member may take for an answer.
	memberCall = 2 * time.Second
	// memberChange is how long a change of the list of members may take, and how long
	// the members may be busy with the one before. etcd refuses one while a member has
	// been connected to the others for less than 5 s (HealthInterval in
	// go.etcd.io/etcd/server/v3/etcdserver). A leader that lets go of a member without
	// power sends nothing to the others while its two streams to that member hang in a
	// write, 5 s each (Transport.RemovePeer and ConnWriteTimeout in
	// etcdserver/api/rafthttp). An election may follow.
	memberChange = 20 * time.Second
	// catchUp is how long a new member may take until it has all data.
	catchUp = 2 * time.Minute
	// announceLimit is how long a new member may take to serve clients.
	announceLimit = 500 * time.Millisecond
	// memberPause is the time between two attempts.
	memberPause = 100 * time.Millisecond
)

func (n *node) peerURL() string {
	return "https://" + hostPort(n.Address(), component.EtcdPeerPort)
}

// onMember asks the etcd member of a node.
func (c *Cluster) onMember(ctx context.Context, n *node, ask func(context.Context, *clientv3.Client) error) error {
	if !n.machine.powered() {
		return fmt.Errorf("etcd on %s: the machine has no power", n.Name())
	}
	client, err := clientv3.New(c.etcdAt(component.EtcdURL(n.Address())))
	if err == nil {
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, memberCall)
		defer cancel()
		err = ask(ctx, client)
	}
	if err != nil {
		return fmt.Errorf("etcd on %s: %w", n.Name(), err)
	}
	return nil
}

// onAnyMember asks one member after the other until one does what is asked.
func (c *Cluster) onAnyMember(ctx context.Context, ask func(context.Context, *clientv3.Client) error) error {
	var errs []error
	for _, n := range c.controlPlane() {
		err := c.onMember(ctx, n, ask)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// listMembers returns the members as a quorum knows them.
func (c *Cluster) listMembers(ctx context.Context) (list []*pb.Member, err error) {
	err = c.onAnyMember(ctx, func(ctx context.Context, client *clientv3.Client) error {
		answer, err := client.MemberList(ctx)
		if err == nil {
			list = answer.Members
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the etcd members: %w", err)
	}
	return list, nil
}

// memberAt returns the member with a peer URL, nil if there is none.
func (c *Cluster) memberAt(ctx context.Context, url string) (*pb.Member, error) {
	list, err := c.listMembers(ctx)
	if i := slices.IndexFunc(list, func(m *pb.Member) bool { return slices.Equal(m.PeerURLs, []string{url}) }); i >= 0 {
		return list[i], err
	}
	return nil, err
}

// membersAreNodes looks whether etcd has the members that the nodes make: a new one
// must be told of exactly those.
func (c *Cluster) membersAreNodes(ctx context.Context) error {
	var list []*pb.Member
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	err := await.Until(ctx, memberPause, func(ctx context.Context) (err error) {
		list, err = c.listMembers(ctx)
		return err
	})
	if err != nil {
		return err
	}
	has, want := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		has[strings.Join(m.PeerURLs, ",")] = true
	}
	for _, n := range c.controlPlane() {
		want[n.peerURL()] = true
	}
	if !maps.Equal(has, want) {
		return fmt.Errorf("etcd's members are at %v, the nodes' are at %v: heal what changed that, or remove the node first",
			slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// addLearner adds a member that does not vote yet. Whoever asked in vain looks whether
// it was added all the same.
func (c *Cluster) addLearner(ctx context.Context, url string) error {
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	return await.Until(ctx, memberPause, func(ctx context.Context) error {
		err := c.onAnyMember(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberAddAsLearner(ctx, []string{url})
			return err
		})
		if err == nil {
			return nil
		}
		if m, _ := c.memberAt(ctx, url); m != nil {
			return nil
		}
		if down := c.silent(ctx); len(down) > 0 {
			return await.Fatal(fmt.Errorf("etcd takes no further member while the one on %s is down; start it, or remove its node: %w", strings.Join(down, ", "), err))
		}
		return fmt.Errorf("adding an etcd member: %w", err)
	})
}

// promote gives a learner its vote as soon as it has caught up with the leader.
func (c *Cluster) promote(ctx context.Context, url string) error {
	ctx, cancel := agenthttp.Within(ctx, catchUp)
	defer cancel()
	return await.Until(ctx, memberPause, func(ctx context.Context) error {
		m, err := c.memberAt(ctx, url)
		switch {
		case err != nil:
			return err
		case m == nil:
			return await.Fatal(errors.New("the new etcd member was removed by somebody else"))
		case !m.IsLearner:
			return nil
		}
		err = c.onAnyMember(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberPromote(ctx, m.ID)
			return err
		})
		if err != nil {
			return fmt.Errorf("promoting the new etcd member: %w", err)
		}
		return nil
	})
}

// announce sees to it that a member that has just been promoted serves clients. etcd
// waits until its announcement of itself is applied, which it misses where that is part
// of the snapshot that it began from; then it tries again after 5 s + 2E (publishV3 and
// ReqTimeout in go.etcd.io/etcd/server/v3). Started anew it tries at once.
func (c *Cluster) announce(ctx context.Context, n *node) error {
	soon, cancel := context.WithTimeout(ctx, announceLimit)
	defer cancel()
	err := c.onMember(soon, n, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Status(ctx, component.EtcdURL(n.Address()))
		return err
	})
	if err == nil {
		return nil
	}
	if err := n.Kill(ctx, framework.Etcd, memberCall); err != nil && !errors.Is(err, framework.ErrNothingDone) {
		return err
	}
	return n.Start(ctx, framework.Etcd)
}

// removeMember removes the member with a peer URL, if there is one.
func (c *Cluster) removeMember(ctx context.Context, url string) error {
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	return await.Until(ctx, memberPause, func(ctx context.Context) error {
		m, err := c.memberAt(ctx, url)
		if err != nil || m == nil {
			return err
		}
		err = c.onAnyMember(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberRemove(ctx, m.ID)
			return err
		})
		if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrMemberNotFound) {
			return fmt.Errorf("removing the etcd member at %s: %w", url, err)
		}
		return nil
	})
}

// statuses asks every member for what it knows itself, by node; those that do not
// answer are missing.
func (c *Cluster) statuses(ctx context.Context) map[*node]*clientv3.StatusResponse {
	var mu sync.Mutex
	all := map[*node]*clientv3.StatusResponse{}
	var asked sync.WaitGroup
	for _, n := range c.controlPlane() {
		asked.Go(func() {
			_ = c.onMember(ctx, n, func(ctx context.Context, client *clientv3.Client) error {
				answer, err := client.Status(ctx, component.EtcdURL(n.Address()))
				if err == nil {
					mu.Lock()
					all[n] = answer
					mu.Unlock()
				}
				return err
			})
		})
	}
	asked.Wait()
	return all
}

// silent returns the nodes whose members do not answer.
func (c *Cluster) silent(ctx context.Context) (names []string) {
	answers := c.statuses(ctx)
	for _, n := range c.controlPlane() {
		if answers[n] == nil {
			names = append(names, n.Name())
		}
	}
	return names
}

// quorumWithout looks whether enough members answer to remove one, and to go on
// without it.
func (c *Cluster) quorumWithout(ctx context.Context, gone *node) error {
	nodes, answers := c.controlPlane(), c.statuses(ctx)
	now, left := len(answers), len(answers)
	if answers[gone] != nil {
		left--
	}
	if need := len(nodes)/2 + 1; now < need {
		return fmt.Errorf("%d of %d etcd members answer, and it takes %d to change anything: start the others first", now, len(nodes), need)
	}
	if need := (len(nodes)-1)/2 + 1; left < need {
		return fmt.Errorf("%d of the %d etcd members that would be left answer, and it takes a quorum of %d: start what is down (%s) first",
			left, len(nodes)-1, need, strings.Join(c.silent(ctx), ", "))
	}
	return nil
}

// quorumWith looks whether a further member could cost the quorum: it counts from the
// moment in which it is added, before it runs. etcd refuses that too, once it has
// noticed who is down.
func (c *Cluster) quorumWith(ctx context.Context) error {
	nodes, down := c.controlPlane(), c.silent(ctx)
	if need := (len(nodes)+1)/2 + 1; len(down) > 0 && len(nodes)-len(down) < need {
		return fmt.Errorf("the etcd member on %s is down: of %d members %d would answer, too few for a quorum of %d; start it, or remove its node",
			strings.Join(down, ", "), len(nodes)+1, len(nodes)-len(down), need)
	}
	return nil
}

// handOn gives the leadership to another member, if the node's own has it.
func (c *Cluster) handOn(ctx context.Context, n *node) error {
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	return await.Until(ctx, memberPause, func(ctx context.Context) error {
		answers := c.statuses(ctx)
		own := answers[n]
		if own == nil || own.Leader != own.Header.MemberId {
			return nil
		}
		// The one that has the most of the log takes over at once.
		var to, most uint64
		for other, answer := range answers {
			if other != n && !answer.IsLearner && answer.RaftIndex >= most {
				to, most = answer.Header.MemberId, answer.RaftIndex
			}
		}
		err := c.onMember(ctx, n, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MoveLeader(ctx, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("handing on the leadership: %w", err)
		}
		return nil
	})
}
