// Package backup saves snapshots of etcd, verifies them, and restores a cluster from one.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/undo"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// SaveLimit is how long a snapshot may take to be saved.
	SaveLimit = time.Minute
	// memberLimit is how long each step of a restore may take on one member.
	memberLimit = time.Minute
	// serveLimit is how long members and API servers may take until they serve again. A kubelet
	// waits for up to five minutes before it starts what has exited often
	// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restarts), and
	// the exit for which a repeated restore kills a member counts as well.
	serveLimit = 6 * time.Minute
	pause      = 100 * time.Millisecond
	savePause  = 250 * time.Millisecond
)

// again is what to do after a restore that failed. No member may have come up, and CheckOwn then
// refuses.
const again = "run the same command again, with --foreign if no etcd member answers"

// Bump is by how much a restore raises the revision above the highest known one, so that no
// client sees it go back: etcd's recovery guide suggests this for a snapshot's revision
// (https://etcd.io/docs/v3.7/op-guide/recovery). Members that do not answer may be ahead by as
// many revisions.
const Bump = 1_000_000_000

// Status is the content of a snapshot.
type Status struct {
	Revision int64 `json:"revision"`
	Keys     int   `json:"keys"`
	// Size is the size of the database, in bytes.
	Size int64 `json:"size"`
}

// String describes the snapshot: "revision 812, 304 keys, 1982496 bytes".
func (s Status) String() string {
	return fmt.Sprintf("revision %d, %d keys, %d bytes", s.Revision, s.Keys, s.Size)
}

// ErrCut is the error of Save if SaveLimit, or its context, ended while the snapshot was received.
// Nothing was wrong with the member then but that it was slow.
var ErrCut = errors.New("the snapshot timed out while it was being received")

// Save writes a snapshot of the etcd member on a node to a file that does not exist, and returns
// the revision that a quorum had before: the snapshot has every write acknowledged before that.
func Save(ctx context.Context, access framework.EtcdAccess, node, file string) (revision string, err error) {
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return "", err
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, SaveLimit)
	defer cancel()
	before, r, err := begin(ctx, etcd)
	if err != nil {
		return "", err
	}
	defer r.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, r)
	switch {
	case err == nil:
		err = f.Sync()
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrCut, err)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file))
	}
	return strconv.FormatInt(before, 10), nil
}

// begin returns a snapshot of which the first bytes have arrived, and the revision that a quorum
// had before. It repeats what fails, as clients of etcd do while its leader changes.
func begin(ctx context.Context, etcd *clientv3.Client) (before int64, r io.ReadCloser, err error) {
	for {
		var answer *clientv3.GetResponse
		var begun *clientv3.SnapshotResponse
		if answer, err = etcd.Get(ctx, "holdfast/none"); err == nil {
			begun, err = etcd.SnapshotWithVersion(ctx)
		}
		if err == nil {
			return answer.Header.Revision, begun.Snapshot, nil
		}
		if !client.Pause(ctx, savePause) {
			return 0, nil, err
		}
	}
}

// Verify reads a snapshot and checks the checksum at its end.
func Verify(file string) (Status, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Status{}, err
	}
	// etcd appends the checksum to a database, whose size is a number of whole sectors.
	if len(b)%512 != sha256.Size {
		return Status{}, fmt.Errorf("the snapshot of %d bytes has no checksum at its end: it is truncated, or not a snapshot of etcd", len(b))
	}
	data, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if is := sha256.Sum256(data); !bytes.Equal(is[:], sum) {
		return Status{}, errors.New("the checksum of the snapshot does not match its data")
	}
	s, err := snapshot.NewV3(zap.NewNop()).Status(file)
	return Status{Revision: s.Revision, Keys: s.TotalKey, Size: s.TotalSize}, err
}

// Restore resets a whole cluster to a snapshot: every etcd member, and then every process that
// may know of data lost by it. The revision rises by Bump above that of the snapshot and of every
// member that answers, and everything before counts as compacted. A bad snapshot, or a cluster
// that cannot be restored, is an error of type framework.Untouched. Once the first member is
// restored, a restore is not interrupted; one that failed leaves a cluster that can be restored
// again.
func Restore(ctx context.Context, c framework.Cluster, file string) error {
	access, all, err := restorable(ctx, c)
	var status Status
	if err == nil {
		status, err = Verify(file)
	}
	var peers []framework.EtcdPeer
	bump := int64(Bump)
	if err == nil {
		var highest int64
		peers, highest, err = peersOf(ctx, c, access, all)
		bump += max(0, highest-status.Revision)
	}
	if err != nil {
		return framework.Untouched{Err: fmt.Errorf("failed to restore %s: %w", file, err)}
	}
	ctx = framework.Uninterrupted(ctx)
	err = Restoration{Members: all, Snapshot: file, Peers: peers, Bump: uint64(bump), Hold: 3 * memberLimit}.Run(ctx)
	if errors.Is(err, framework.ErrNothingDone) {
		return framework.Untouched{Err: fmt.Errorf("failed to restore %s: %w", file, err)}
	}
	if err != nil {
		return fmt.Errorf("failed to restore %s: %w; %s", file, err, again)
	}
	for _, m := range all {
		err := framework.DoStep(ctx, m.Name, "await etcd", func(ctx context.Context) (string, error) {
			return awaitRevision(ctx, access, m.Name, status.Revision+bump)
		})
		if err != nil {
			return fmt.Errorf("etcd was restored from %s but did not serve within %s, longer than the kubelet's maximum back-off: %w; %s", file, serveLimit, err, again)
		}
	}
	for _, component := range undo.CachingComponents {
		for _, n := range framework.NodesWith(c, component) {
			err := framework.DoStep(ctx, n.Name(), "restart "+string(component), func(ctx context.Context) (string, error) {
				return restart(ctx, c, n, component)
			})
			if err != nil {
				return fmt.Errorf("etcd is restored from %s, but restarting the control plane failed: %w; %s", file, err, again)
			}
		}
	}
	return nil
}

// restorable returns the members of a cluster, if all of them can be restored.
func restorable(ctx context.Context, c framework.Cluster) (framework.EtcdAccess, []Member, error) {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return nil, nil, fmt.Errorf("cluster %s gives no access to its etcd members", c.Name())
	}
	var all []Member
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		operator, operates := n.(framework.EtcdOperator)
		killer, kills := n.(framework.Killer)
		starter, starts := n.(framework.Starter)
		if !operates || !kills || !starts {
			return nil, nil, fmt.Errorf("etcd on %s cannot be restored: its node does not let holdfast stop etcd and replace its data", n.Name())
		}
		if framework.PoweredOff(ctx, n) {
			return nil, nil, fmt.Errorf("node %s has no power: power it on (`holdfast heal`), or remove it", n.Name())
		}
		all = append(all, Member{n.Name(), operator, killer, starter})
	}
	return access, all, nil
}

// peersOf returns how the members reach each other, and the highest revision that any of them
// has, as reported by the members that answer; it works without a quorum, too. If none lists a
// member for each node, as when none answers or one has started without data as a cluster by
// itself, the members are those that the nodes report. The revision of the others is unknown then,
// and may already be one that a restore raised: the time in nanoseconds is higher, also than at the
// previous restore. More members than nodes are refused if there is a quorum: those of no node would
// continue with the data from before.
func peersOf(ctx context.Context, c framework.Cluster, access framework.EtcdAccess, all []Member) (peers []framework.EtcdPeer, highest int64, err error) {
	var errs []error
	for _, m := range all {
		list, revision, err := ask(ctx, access, m.Name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("etcd on %s: %w", m.Name, err))
			continue
		case len(list) > len(all) && read(ctx, access, m.Name) == nil:
			return nil, 0, fmt.Errorf("etcd has %d members, and %d nodes run etcd: remove the extra members first (`holdfast shell %s -- etcdctl member remove ID`)", len(list), len(all), m.Name)
		case len(list) != len(all):
			errs = append(errs, fmt.Errorf("etcd on %s has %d members, and %d nodes run etcd", m.Name, len(list), len(all)))
		default:
			peers = list
		}
		highest = max(highest, revision)
	}
	if peers != nil {
		return peers, highest, nil
	}
	peers, err = configured(ctx, all)
	if err != nil {
		return nil, 0, fmt.Errorf("no etcd member lists the members of all nodes; start one that does (`holdfast heal`): %w", errors.Join(append(errs, err)...))
	}
	return peers, max(highest, time.Now().UnixNano()), nil
}

// configured returns the etcd members of all nodes as these are configured.
func configured(ctx context.Context, all []Member) (peers []framework.EtcdPeer, err error) {
	for _, m := range all {
		peer, err := m.EtcdPeer(ctx)
		if err != nil {
			return nil, fmt.Errorf("etcd member of %s: %w", m.Name, err)
		}
		if slices.ContainsFunc(peers, func(other framework.EtcdPeer) bool { return other.Name == peer.Name }) {
			return nil, fmt.Errorf("two etcd members are called %s", peer.Name)
		}
		peers = append(peers, peer)
	}
	return peers, nil
}

// restart restarts a component that knows of a state that no longer exists, and returns when it
// runs as another process and, if it is an API server, is ready.
func restart(ctx context.Context, c framework.Cluster, n framework.Node, component framework.Component) (proof string, err error) {
	killer, ok := n.(framework.Killer)
	if !ok {
		return "", fmt.Errorf("%s on %s cannot be restarted: its provider cannot kill processes", component, n.Name())
	}
	if err := killer.Kill(ctx, component, 0); err != nil && !errors.Is(err, framework.ErrNothingDone) {
		return "", err
	}
	i := slices.IndexFunc(c.Entrances(), func(e framework.Entrance) bool { return e.Node == n.Name() })
	if component != framework.APIServer || i < 0 {
		return "its process was killed", nil
	}
	err = until(ctx, func(ctx context.Context) error {
		api, err := client.NewAPI(c.Entrances()[i].Config, client.Options{NewConnections: true})
		if err != nil {
			return err
		}
		defer api.Close()
		if a := api.Do(ctx, client.Request{Method: http.MethodGet, Path: "/readyz"}); a.Outcome() != record.OK {
			return errors.New(a.Problem())
		}
		return nil
	})
	return "it answers /readyz", err
}

// until repeats an attempt until it succeeds, for at most serveLimit.
func until(ctx context.Context, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serveLimit)
	defer cancel()
	return client.Until(ctx, pause, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return attempt(ctx)
	})
}
