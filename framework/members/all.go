package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// insistLimit is how long members may refuse to change the member list: they do while one of
	// them has been connected to the rest for less than 5 seconds.
	insistLimit = 30 * time.Second
	insistPause = 50 * time.Millisecond
)

// All are all members of a cluster, or some of them.
type All []Member

// OpenAll returns the members on these nodes. The caller closes them.
func OpenAll(access framework.EtcdAccess, nodes []string) (All, error) {
	var all All
	for _, node := range nodes {
		m, err := Open(access, node)
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, errors.New("no node of the cluster runs etcd")
	}
	return all, nil
}

// Close closes their clients.
func (all All) Close() {
	for _, m := range all {
		_ = m.Client.Close()
	}
}

// Without returns the members on other nodes than this one.
func (all All) Without(node string) All {
	return slices.DeleteFunc(slices.Clone(all), func(m Member) bool { return m.Node == node })
}

// On returns the member on a node, which must be among them.
func (all All) On(node string) Member {
	return all[slices.IndexFunc(all, func(m Member) bool { return m.Node == node })]
}

// First calls ask on one member after the other until one succeeds.
func (all All) First(ctx context.Context, ask func(context.Context, Member) error) error {
	var problems []error
	for _, m := range all {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, TryLimit)
			defer cancel()
			return ask(ctx, m)
		}()
		if err == nil {
			return nil
		}
		problems = append(problems, fmt.Errorf("etcd on %s: %w", m.Node, err))
	}
	return errors.Join(problems...)
}

// Insist is First, repeated for a while if all fail: members refuse to change the member list
// while one of them has only just connected to the rest.
func (all All) Insist(ctx context.Context, ask func(context.Context, Member) error) error {
	ctx, cancel := context.WithTimeout(ctx, insistLimit)
	defer cancel()
	for {
		err := all.First(ctx, ask)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(insistPause):
		}
	}
}

// List returns the members of the cluster from the first one that answers. The list is
// linearizable.
func (all All) List(ctx context.Context) (found []*pb.Member, err error) {
	err = all.First(ctx, func(ctx context.Context, m Member) error {
		answer, err := m.Client.MemberList(ctx)
		if err == nil {
			found = answer.Members
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the members: %w", err)
	}
	return found, nil
}

// Alarms returns the active alarms from the first member that answers.
func (all All) Alarms(ctx context.Context) (found []*pb.AlarmMember, err error) {
	err = all.First(ctx, func(ctx context.Context, m Member) error {
		answer, err := m.Client.AlarmList(ctx)
		if err == nil {
			found = answer.Alarms
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the alarms: %w", err)
	}
	return found, nil
}

// Disarm removes an alarm of a member; 0 means every member. It does nothing if the alarm is not
// raised.
func (all All) Disarm(ctx context.Context, id uint64, kind pb.AlarmType) error {
	list, err := all.Alarms(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, a := range list {
		if a.Alarm != kind || id != 0 && a.MemberID != id {
			continue
		}
		err := all.First(ctx, func(ctx context.Context, m Member) error {
			_, err := m.Client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm})
			return err
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("failed to disarm alarm %s of member %x: %w", a.Alarm, a.MemberID, err))
		}
	}
	return errors.Join(problems...)
}

// FreeSpace deletes the keys with a prefix, frees their space on every member, and removes the
// alarm NOSPACE. A member that keeps a large database would raise the alarm again, so none may be
// left out.
func (all All) FreeSpace(ctx context.Context, prefix string) error {
	var revision int64
	err := all.First(ctx, func(ctx context.Context, m Member) error {
		deleted, err := m.Client.Delete(ctx, prefix, clientv3.WithPrefix())
		if err == nil {
			revision = deleted.Header.Revision
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("failed to delete the keys %s*: %w", prefix, err)
	}
	var problems []error
	for _, m := range all {
		if err := m.shrink(ctx, revision); err != nil {
			problems = append(problems, fmt.Errorf("on %s: %w", m.Node, err))
		}
	}
	return errors.Join(append(problems, all.Disarm(ctx, 0, pb.AlarmType_NOSPACE))...)
}

// Rejoin adds the member on a node again, empty; the others carry it out. It does nothing if a
// member with these peer URLs exists and has started.
func (all All) Rejoin(ctx context.Context, rejoiner framework.EtcdRejoiner, node string, urls []string) error {
	others := all.Without(node)
	var list []*pb.Member
	at := -1
	err := others.Insist(ctx, func(ctx context.Context, m Member) (err error) {
		// An earlier try may have added it, although its answer was lost.
		if list, err = others.List(ctx); err != nil {
			return err
		}
		if at = slices.IndexFunc(list, func(m *pb.Member) bool { return slices.Equal(m.PeerURLs, urls) }); at >= 0 {
			return nil
		}
		answer, err := m.Client.MemberAdd(ctx, urls)
		if err == nil {
			list = answer.Members
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("failed to add the member with peer URL %s: %w", strings.Join(urls, ","), err)
	case at >= 0 && list[at].Name != "":
		return nil
	}
	if err := rejoiner.RejoinEtcd(ctx, PeersOf(list, node)); err != nil {
		return fmt.Errorf("failed to start the member that was added: %w", err)
	}
	return nil
}

// PeersOf turns a list of members into the arguments to start a member. A member that never
// started has no name; unnamed gives it one.
func PeersOf(list []*pb.Member, unnamed string) []framework.EtcdPeer {
	var peers []framework.EtcdPeer
	for _, m := range list {
		peers = append(peers, framework.EtcdPeer{Name: cmp.Or(m.Name, unnamed), URLs: m.PeerURLs})
	}
	return peers
}

// InitialCluster formats the members of a cluster as etcd's argument --initial-cluster.
func InitialCluster(peers []framework.EtcdPeer) string {
	var all []string
	for _, m := range peers {
		for _, url := range m.URLs {
			all = append(all, m.Name+"="+url)
		}
	}
	return strings.Join(all, ",")
}
