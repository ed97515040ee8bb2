package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

var (
	_ keeper.Access          = Provider{}
	_ keeper.UpgradePreparer = Provider{}
	_ keeper.Kept            = (*Cluster)(nil)
)

// Kubeconfig implements keeper.Kept. During a replacement of the CAs it trusts both, and every
// node accepts its certificate.
func (c *Cluster) Kubeconfig(server string) ([]byte, error) {
	low, high := framework.TrustNew, framework.TrustOld
	for _, at := range c.TrustStages() {
		low, high = min(low, at[0]), max(high, at[1])
	}
	stage := low
	switch {
	case low == framework.TrustOld && high > low:
		stage = framework.TrustBoth
	case low == framework.TrustBoth && high > low:
		stage = framework.TrustBothUseNew
	}
	return c.pki.At(stage).Kubeconfig(pki.Admin(), server)
}

// NetworkState implements keeper.Kept.
func (c *Cluster) NetworkState() (what string, impairments int) {
	return c.backend, c.impair.active()
}

// Hosts implements keeper.Kept.
func (c *Cluster) Hosts(ctx context.Context) []keeper.HostStatus {
	return framework.Map(c.machines(), func(m *machine) keeper.HostStatus {
		st := keeper.HostStatus{Name: m.name, Address: m.addr.Addr().String(), Powered: m.powered(), PID: m.pid(), Dir: m.dir}
		if st.Powered {
			var err error
			if st.Components, err = m.agent.Processes(ctx); err != nil {
				st.Error = err.Error()
			}
		}
		return st
	})
}

// PrepareUpgrade implements keeper.UpgradePreparer: downloads and builds are not possible where
// the cluster runs.
func (Provider) PrepareUpgrade(ctx context.Context, _ *keeper.Handle, r keeper.ChangeRequest, p clusters.Preparation) error {
	product := release.Kubernetes
	switch {
	case r.Etcd && r.Version == release.EmbeddedEtcd:
		return nil
	case r.Etcd:
		product = release.Etcd
	}
	_, err := release.Fetch(ctx, product, r.Version, p.Release)
	return err
}

// EndLimit implements keeper.Access.
func (Provider) EndLimit() time.Duration { return 5 * time.Second }

// Kubectl implements keeper.Access.
func (Provider) Kubectl(_ context.Context, h *keeper.Handle) (string, error) {
	spec, err := h.Spec()
	if err != nil {
		return "", err
	}
	e, err := release.Lookup(release.Kubernetes, spec.Spec.KubernetesVersion, release.Options{})
	if err != nil {
		return "", err
	}
	return filepath.Join(e.Dir, "kubectl"), nil
}

// Log implements keeper.Access: logs are files in the cluster's state directory.
func (Provider) Log(ctx context.Context, h *keeper.Handle, host, component string, follow bool, out io.Writer) error {
	dir := filepath.Join(h.Dir(), "logs")
	f, err := os.Open(filepath.Join(dir, host, component+".log"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: cluster %s has no log of %s on %s; available:\n%s", keeper.ErrNoLog, h.Name, component, host, logNames(dir))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := io.Copy(out, f); err != nil {
			return err
		}
		if !follow || !client.Pause(ctx, 200*time.Millisecond) {
			return nil
		}
	}
}

func logNames(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "  %s %s\n", filepath.Base(filepath.Dir(f)), strings.TrimSuffix(filepath.Base(f), ".log"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
