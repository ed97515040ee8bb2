// Package scaling contains what is shared by providers that add control-plane nodes to a
// running cluster and remove them: changes of etcd's members, the graceful shutdown of a node's
// components, and the rollback if a change fails.
//
// Its tests have no requirements: go test ./clusters/internal/scaling
package scaling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// MemberCall is how long one etcd member may take to answer.
	MemberCall = 2 * time.Second
	// memberChange is how long a change of the member list may take, including the time for
	// which the members may be busy with the previous one. etcd refuses a change while a member
	// has been connected to the others for less than 5 s (HealthInterval in
	// go.etcd.io/etcd/server/v3/etcdserver). A leader that removes a member without power sends
	// nothing to the others while its two streams to that member hang in a write, 5 s each
	// (Transport.RemovePeer and ConnWriteTimeout in etcdserver/api/rafthttp). An election may
	// follow.
	memberChange = 20 * time.Second
	// catchUp is how long a new member may take until it has all data.
	catchUp = 2 * time.Minute
	// Pause is the time between two attempts.
	Pause = 100 * time.Millisecond
)

// Member is the etcd member of a control-plane node.
type Member struct {
	Node    string
	PeerURL string
	// Config returns how to reach it, at one endpoint, or why it cannot be reached.
	Config func(context.Context) (clientv3.Config, error)
}

// Ask sends a request to the member.
func (m Member) Ask(ctx context.Context, ask func(context.Context, *clientv3.Client) error) error {
	config, err := m.Config(ctx)
	if err == nil {
		var client *clientv3.Client
		if client, err = clientv3.New(config); err == nil {
			defer client.Close()
			ctx, cancel := context.WithTimeout(ctx, MemberCall)
			defer cancel()
			err = ask(ctx, client)
		}
	}
	if err != nil {
		return fmt.Errorf("etcd on %s: %w", m.Node, err)
	}
	return nil
}

// Status requests the member's own status.
func (m Member) Status(ctx context.Context) (answer *clientv3.StatusResponse, err error) {
	err = m.Ask(ctx, func(ctx context.Context, client *clientv3.Client) (err error) {
		answer, err = client.Status(ctx, client.Endpoints()[0])
		return err
	})
	return answer, err
}

// Members are the etcd members of all control-plane nodes.
type Members []Member

// askAny sends a request to one member after the other until one succeeds.
func (all Members) askAny(ctx context.Context, ask func(context.Context, *clientv3.Client) error) error {
	var errs []error
	for _, m := range all {
		err := m.Ask(ctx, ask)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// List returns the members as a quorum knows them.
func (all Members) List(ctx context.Context) (list []*pb.Member, err error) {
	err = all.askAny(ctx, func(ctx context.Context, client *clientv3.Client) error {
		answer, err := client.MemberList(ctx)
		if err == nil {
			list = answer.Members
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the etcd members: %w", err)
	}
	return list, nil
}

// at returns the member with a peer URL; nil if there is none.
func (all Members) at(ctx context.Context, url string) (*pb.Member, error) {
	list, err := all.List(ctx)
	if i := slices.IndexFunc(list, func(m *pb.Member) bool { return slices.Equal(m.PeerURLs, []string{url}) }); i >= 0 {
		return list[i], err
	}
	return nil, err
}

// listAfterChange is List, once the members are done with a change that may have come before.
func (all Members) listAfterChange(ctx context.Context) (list []*pb.Member, err error) {
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	err = await.Until(ctx, Pause, func(ctx context.Context) (err error) {
		list, err = all.List(ctx)
		return err
	})
	return list, err
}

// AreNodes checks whether etcd's members are exactly those of the nodes: a new member must be
// started with exactly that list.
func (all Members) AreNodes(ctx context.Context) error {
	list, err := all.listAfterChange(ctx)
	if err != nil {
		return err
	}
	has, want := map[string]bool{}, map[string]bool{}
	for _, m := range all {
		want[m.PeerURL] = true
	}
	extra := ""
	for _, m := range list {
		url := strings.Join(m.PeerURLs, ",")
		if has[url] = true; !want[url] {
			extra += fmt.Sprintf("; `holdfast shell %s -- etcdctl member remove %x` removes the one at %s", all[0].Node, m.ID, url)
		}
	}
	if !maps.Equal(has, want) {
		return fmt.Errorf("etcd has members at %v, but the nodes have members at %v: heal the fault that changed this, or remove the node first%s",
			slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(want)), extra)
	}
	return nil
}

// AddLearner adds a member that does not vote yet. If it fails, the caller checks whether the
// member was added nevertheless.
func (all Members) AddLearner(ctx context.Context, url string) error {
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	return await.Until(ctx, Pause, func(ctx context.Context) error {
		err := all.askAny(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberAddAsLearner(ctx, []string{url})
			return err
		})
		if err == nil {
			return nil
		}
		if m, _ := all.at(ctx, url); m != nil {
			return nil
		}
		if down := all.Silent(ctx); len(down) > 0 {
			return await.Fatal(fmt.Errorf("etcd accepts no additional member while the one on %s is down; start it, or remove its node (`holdfast scale --remove`): %w", strings.Join(down, ", "), err))
		}
		return fmt.Errorf("failed to add an etcd member: %w", err)
	})
}

// Promote makes a learner a voter as soon as it has caught up with the leader.
func (all Members) Promote(ctx context.Context, url string) error {
	ctx, cancel := agenthttp.Within(ctx, catchUp)
	defer cancel()
	return await.Until(ctx, Pause, func(ctx context.Context) error {
		m, err := all.at(ctx, url)
		switch {
		case err != nil:
			return err
		case m == nil:
			return await.Fatal(errors.New("the new etcd member was removed by another process"))
		case !m.IsLearner:
			return nil
		}
		err = all.askAny(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberPromote(ctx, m.ID)
			return err
		})
		if err != nil {
			return fmt.Errorf("failed to promote the new etcd member: %w", err)
		}
		return nil
	})
}

// commit commits a proposal of its own, and all earlier ones with it. It deletes a key that does not
// exist, which changes no data; with an alarm about corruption, members refuse that after they have
// committed it.
func (all Members) commit(ctx context.Context) error {
	return all.askAny(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Delete(ctx, "holdfast/absent")
		if errors.Is(rpctypes.Error(err), rpctypes.ErrCorrupt) {
			return nil
		}
		return err
	})
}

// Remove removes the member with a peer URL, if there is one, or if an interrupted addition still
// adds one.
func (all Members) Remove(ctx context.Context, url string) error {
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	return await.Until(ctx, Pause, func(ctx context.Context) error {
		m, err := all.at(ctx, url)
		if err == nil && m == nil {
			if err = all.commit(ctx); err == nil {
				m, err = all.at(ctx, url)
			}
		}
		if err != nil || m == nil {
			return err
		}
		err = all.askAny(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberRemove(ctx, m.ID)
			return err
		})
		if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrMemberNotFound) {
			return fmt.Errorf("failed to remove the etcd member at %s: %w", url, err)
		}
		return nil
	})
}

// Statuses requests each member's own status, by node; members that do not answer are missing.
func (all Members) Statuses(ctx context.Context) map[string]*clientv3.StatusResponse {
	told := framework.Map(all, func(m Member) *clientv3.StatusResponse {
		answer, _ := m.Status(ctx) // nil if it failed
		return answer
	})
	answers := map[string]*clientv3.StatusResponse{}
	for i, m := range all {
		if told[i] != nil {
			answers[m.Node] = told[i]
		}
	}
	return answers
}

// Silent returns the nodes whose members do not answer.
func (all Members) Silent(ctx context.Context) []string { return all.missing(all.Statuses(ctx)) }

func (all Members) missing(answers map[string]*clientv3.StatusResponse) (nodes []string) {
	for _, m := range all {
		if answers[m.Node] == nil {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// QuorumWithout checks whether enough members answer to remove the one on a node, and
// to continue without it.
func (all Members) QuorumWithout(ctx context.Context, gone string) error {
	answers := all.Statuses(ctx)
	now, left := len(answers), len(answers)
	if answers[gone] != nil {
		left--
	}
	if need := len(all)/2 + 1; now < need {
		return fmt.Errorf("%d of %d etcd members answer, and a change needs %d: start the others first", now, len(all), need)
	}
	if need := (len(all)-1)/2 + 1; left < need {
		return fmt.Errorf("%d of the %d etcd members that would be left answer, and the quorum is %d: start what is down (%s) first",
			left, len(all)-1, need, strings.Join(all.missing(answers), ", "))
	}
	return nil
}

// QuorumBeside checks whether enough members answer to restart the one on a node. One of two cannot
// restart without a pause.
func (all Members) QuorumBeside(ctx context.Context, restarts string) error {
	if len(all) < 2 {
		return nil
	}
	answers := all.Statuses(ctx)
	delete(answers, restarts)
	need := len(all)/2 + 1
	if len(all) == 2 {
		need = 1
	}
	if len(answers) < need {
		return fmt.Errorf("%d of %d etcd members would answer while the one on %s restarts, and the quorum is %d: start what is down (%s) first",
			len(answers), len(all), restarts, need, strings.Join(slices.DeleteFunc(all.missing(answers), func(n string) bool { return n == restarts }), ", "))
	}
	return nil
}

// QuorumWith checks whether another member could cost the quorum: it counts from when it is
// added, before it runs. etcd refuses that too, once it has noticed which members are down.
func (all Members) QuorumWith(ctx context.Context) error {
	down := all.Silent(ctx)
	if need := (len(all)+1)/2 + 1; len(down) > 0 && len(all)-len(down) < need {
		return fmt.Errorf("the etcd member on %s is down: of %d members %d would answer, too few for a quorum of %d; start it, or remove its node (`holdfast scale --remove`)",
			strings.Join(down, ", "), len(all)+1, len(all)-len(down), need)
	}
	return nil
}

// HandOn transfers the leadership to another member, if the node's own is the leader and there
// are others.
func (all Members) HandOn(ctx context.Context, node string) error {
	if len(all) == 1 {
		return nil
	}
	ctx, cancel := agenthttp.Within(ctx, memberChange)
	defer cancel()
	return await.Until(ctx, Pause, func(ctx context.Context) error {
		answers := all.Statuses(ctx)
		own := answers[node]
		if own == nil || own.Leader != own.Header.MemberId {
			return nil
		}
		// The member with the most complete log takes over fastest.
		var to, most uint64
		for other, answer := range answers {
			if other != node && !answer.IsLearner && answer.RaftIndex >= most {
				to, most = answer.Header.MemberId, answer.RaftIndex
			}
		}
		if to == 0 {
			return errors.New("failed to hand over the leadership: no other etcd member answers")
		}
		i := slices.IndexFunc(all, func(m Member) bool { return m.Node == node })
		err := all[i].Ask(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MoveLeader(ctx, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("failed to hand over the leadership: %w", err)
		}
		return nil
	})
}
