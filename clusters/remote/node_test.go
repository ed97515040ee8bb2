package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// TestStillBroken: a node counts as broken until each of its faults is healed, whatever another one
// of the same component does meanwhile, and also if a request failed that may have been carried out.
func TestStillBroken(t *testing.T) {
	type step func(context.Context, *node) error
	kill := func(hold time.Duration) step {
		return func(ctx context.Context, n *node) error { return n.Kill(ctx, framework.Etcd, hold) }
	}
	start := func(ctx context.Context, n *node) error { return n.Start(ctx, framework.Etcd) }
	freeze := func(ctx context.Context, n *node) error { return n.Freeze(ctx, framework.Etcd, time.Hour) }
	thaw := func(ctx context.Context, n *node) error { return n.Thaw(ctx, framework.Etcd) }
	loop := func(ctx context.Context, n *node) error { return n.CrashLoop(ctx, framework.Etcd, 0, time.Hour) }
	endLoop := func(ctx context.Context, n *node) error { return n.EndCrashLoop(ctx, framework.Etcd) }
	spoil := func(ctx context.Context, n *node) error {
		return n.SpoilCertificates(ctx, framework.Etcd, framework.CertificateExpired, time.Hour)
	}
	renew := func(ctx context.Context, n *node) error { return n.RestoreCertificates(ctx, framework.Etcd) }
	wipe := func(ctx context.Context, n *node) error { _, err := n.WipeDisk(ctx, time.Hour); return err }
	restore := func(ctx context.Context, n *node) error { return n.RestoreDisk(ctx, "handle-2") }
	var refuse error
	failing := func(do step, err error) step {
		return func(ctx context.Context, n *node) error {
			refuse = err
			defer func() { refuse = nil }()
			if do(ctx, n) == nil {
				return errors.New("it did not fail")
			}
			return nil
		}
	}
	for _, tc := range []struct {
		name         string
		breaks, heal []step
	}{
		{"held down", []step{kill(time.Hour)}, []step{start}},
		{"without data, with its certificates again", []step{spoil, wipe, renew}, []step{restore}},
		{"in a crash loop, and restarted", []step{loop, kill(0), start}, []step{endLoop}},
		{"frozen, and restarted", []step{freeze, kill(0), start}, []step{thaw}},
		{"held down, and killed again", []step{kill(time.Hour), failing(kill(0), agenthttp.NothingDone("it is held down"))}, []step{start}},
		{"perhaps held down", []step{failing(kill(time.Hour), errors.New("the answer was lost"))}, []step{start}},
		{"perhaps without data", []step{failing(wipe, errors.New("the answer was lost"))}, []step{restore}},
	} {
		n := fillNode(t, Profile{}, &refuse, Processes, Data)
		carryOut := func(steps []step) {
			t.Helper()
			for _, do := range steps {
				if err := do(t.Context(), n); err != nil {
					t.Errorf("%s: %v", tc.name, err)
				}
			}
		}
		second := func() error { return n.cluster.breaks("second", []string{"node-2"}, time.Hour) }
		carryOut(tc.breaks)
		if err := second(); !errors.Is(err, ErrNoConsent) {
			t.Errorf("%s: a second node can be broken as well: %v", tc.name, err)
		}
		carryOut(tc.heal)
		if err := second(); err != nil {
			t.Errorf("%s: once it is healed: %v", tc.name, err)
		}
	}
}

// TestCheckRejoin: a member is only removed where it can be started as one that joins again.
func TestCheckRejoin(t *testing.T) {
	for _, tc := range []struct{ distribution, seen, want string }{
		{"kubeadm", kubeadmNode(), ""},
		{"kubeadm", kubeadmNode() + "environment 101 ETCD_WAL_DIR=/var/lib/etcd/member/wal" + argumentEnd + "\n", ""},
		{"kubeadm", kubeadmNode() + "environment 101 ETCD_WAL_DIR=/fast/wal" + argumentEnd + "\n", "its etcd has its log in /fast/wal"},
		{"kubeadm", kubeadmNode() + "environment 101 ETCD_WAL_DIR=/var/lib/etcd/wal" + argumentEnd + "\n", "its etcd has its log in /var/lib/etcd/wal"},
		{"systemd", systemdNode + systemdUnits, "only those of a static pod can be changed"},
		{"k0s", k0sNode(), "only those of a static pod can be changed"},
		{"processes", systemdNode, "only those of a static pod can be changed"},
		{"k3s", k3sNode(), "its etcd shares a process with other components"},
	} {
		s, err := parseSight(tc.seen)
		if err != nil {
			t.Fatal(err)
		}
		f, err := detect(tc.distribution, testNode(), s)
		if err != nil {
			t.Fatal(err)
		}
		err = (&node{found: f}).CheckRejoin()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.distribution, err, tc.want)
		}
	}
}

// TestLogElsewhere: the data of a member are left alone if its log is not in them. Its certificates are
// not data.
func TestLogElsewhere(t *testing.T) {
	var refuse error
	n := fillNode(t, Profile{}, &refuse, Processes, Data)
	n.found.processes[framework.Etcd] = process{args: []string{"etcd", "--data-dir=/var/lib/etcd", "--wal-dir=/fast/wal"}}
	_, wipe := n.WipeDisk(t.Context(), time.Hour)
	_, fill := n.FillDisk(t.Context(), 0, time.Hour)
	for _, err := range []error{wipe, fill, n.CheckFill(t.Context()), n.ReplaceEtcdData(t.Context(), "")} {
		if !errors.As(err, new(*fault.MissingAbility)) || !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), "its etcd has its log in /fast/wal (--wal-dir)") {
			t.Error(err)
		}
	}
	if err := n.SpoilCertificates(t.Context(), framework.Etcd, framework.CertificateExpired, time.Hour); err != nil {
		t.Error(err)
	}
}

// The port of a member is that of the first URL with a host.
func TestServingEndpoints(t *testing.T) {
	for urls, want := range map[string]string{
		"https://etcd-1:2379":                    "10.0.0.11:2379",
		"unix:///run/etcd, https://etcd-1:12379": "10.0.0.11:12379",
		"":                                       "",
		"unix:///run/etcd":                       "",
	} {
		etcd := process{args: []string{"etcd", "--advertise-client-urls=" + urls, "--initial-advertise-peer-urls=https://etcd-1:2380"}}
		n := &node{plain: &plain{spec: clusters.Node{Name: "node-1"}, address: netip.MustParseAddr("10.0.0.11")}, etcdCA: x509.NewCertPool(),
			found: &found{processes: map[framework.Component]process{framework.Etcd: etcd}}}
		all, err := n.ServingEndpoints(framework.Etcd)
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "the address of etcd on node-1 is unknown")):
			t.Errorf("%q: %v", urls, err)
		case want != "" && (err != nil || len(all) != 2 || all[0].Address != want || all[1].Address != "10.0.0.11:2380"):
			t.Errorf("%q: %+v, %v", urls, all, err)
		}
	}
}

// Without the CA of etcd, every port on which the member listens is tried.
func TestFurtherListeners(t *testing.T) {
	etcd := process{args: []string{"etcd", "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379,http://10.0.0.11:4001",
		"--advertise-client-urls=https://10.0.0.11:2379", "--listen-peer-urls=https://10.0.0.11:2380", "--initial-advertise-peer-urls=https://10.0.0.11:2380"}}
	for _, tc := range []struct {
		name      string
		processes map[framework.Component]process
		ca        *x509.CertPool
		want      []string
	}{
		{"another port", map[framework.Component]process{framework.Etcd: etcd}, x509.NewCertPool(), []string{"10.0.0.11:4001"}},
		{"no CA", map[framework.Component]process{framework.Etcd: etcd}, nil, []string{"10.0.0.11:2379", "10.0.0.11:4001", "10.0.0.11:2380"}},
		{"no etcd", nil, nil, nil},
	} {
		n := &node{plain: &plain{address: netip.MustParseAddr("10.0.0.11")}, found: &found{processes: tc.processes}, etcdCA: tc.ca}
		got := framework.Map(n.FurtherListeners(), func(e framework.ServingEndpoint) string { return e.Address })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
