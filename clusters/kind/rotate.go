package kind

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

var _ framework.CertificateRotator = (*Cluster)(nil)

const (
	// restartHold is after what time a component is started again whose restart was interrupted.
	restartHold = time.Minute
	// restartLimit is how long a restarted component may take until it is ready.
	restartLimit = 3 * time.Minute
)

// rotation replaces the certificates of one control-plane node.
type rotation struct {
	*node
	// before are the fingerprints of the certificates that each component served, by port.
	before map[framework.Component]map[string]string
}

// RotateCertificates implements framework.CertificateRotator: `kubeadm certs renew all` on the
// node, and then etcd, API server, controller manager and scheduler are restarted, one after the
// other. The certificates of the kubelet are not among those that kubeadm renews.
func (c *Cluster) RotateCertificates(ctx context.Context, name string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	r, err := c.planRotation(ctx, name)
	if err != nil {
		err = framework.Untouched{Err: explain(err)}
	} else if err = r.carryOut(ctx); err != nil {
		err = explain(err)
	}
	if err != nil {
		return fmt.Errorf("failed to rotate the certificates of %s of cluster %s: %w", name, c.Name(), err)
	}
	return nil
}

// planRotation checks whether the certificates of a node can be replaced now.
func (c *Cluster) planRotation(ctx context.Context, name string) (*rotation, error) {
	nodes := c.controlPlane()
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no such control-plane node; the nodes are %s", strings.Join(framework.NodeNames(nodes), ", "))
	}
	r := &rotation{node: nodes[i], before: map[framework.Component]map[string]string{}}
	look, cancel := agenthttp.Within(ctx, lookLimit)
	defer cancel()
	if err := r.undisturbed(look); err != nil {
		return nil, err
	}
	for _, component := range rotated() {
		served, err := r.served(look, component, framework.ServingEndpoint.Chain) // those may have expired
		if err != nil {
			return nil, err
		}
		r.before[component] = served
	}
	return r, c.etcdMembers().QuorumBeside(look, name)
}

// rotated are the components of a node in the order in which they restart.
func rotated() []framework.Component {
	return append([]framework.Component{framework.Etcd}, components...)
}

func (r *rotation) carryOut(ctx context.Context) error {
	r.cluster.o.Progress("renewing the certificates of " + r.name)
	if err := framework.DoStep(ctx, r.name, "renew certificates", r.renew); err != nil {
		return err
	}
	versions := r.cluster.Versions()[r.name]
	for _, component := range rotated() {
		if component == framework.Etcd {
			// Otherwise the others wait for an election timeout until they elect another leader.
			if err := r.cluster.etcdMembers().HandOn(ctx, r.name); err != nil {
				return err
			}
		}
		r.cluster.o.Progress(fmt.Sprintf("restarting %s on %s with its new certificate", component, r.name))
		err := framework.Restart(ctx, r.name, component, versions[component], func(ctx context.Context) (string, error) {
			return r.restart(ctx, component)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// renew replaces the certificate and key files of the node, and those in its kubeconfigs.
func (r *rotation) renew(ctx context.Context) (proof string, err error) {
	out, err := r.docker(ctx, "exec", r.name, "kubeadm", "certs", "renew", "all")
	if err != nil {
		return "", fmt.Errorf("kubeadm did not renew them: %w", err)
	}
	n := renewed(out)
	if n == 0 {
		return "", fmt.Errorf("kubeadm renewed no certificates: %s", strings.TrimSpace(out))
	}
	return fmt.Sprintf("kubeadm renewed %d certificates", n), nil
}

// renewed counts the certificates that kubeadm says it renewed. Only the first node of a cluster
// has a kubeconfig of the super-admin: kubeadm reports that it is missing on the others.
func renewed(output string) (n int) {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "certificate ") && strings.HasSuffix(strings.TrimSpace(line), " renewed") {
			n++
		}
	}
	return n
}

// restart restarts a component and returns when it serves with a new certificate, with what proves
// it. A component whose restart is interrupted is started all the same.
func (r *rotation) restart(ctx context.Context, c framework.Component) (proof string, err error) {
	old, err := r.Process(ctx, c)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	pair := context.WithoutCancel(ctx)
	err = r.Stop(pair, c, restartHold)
	if errors.Is(err, framework.ErrNothingDone) {
		err = nil // it is down
	}
	if err := errors.Join(err, r.Start(pair, c)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, restartLimit, fmt.Errorf("not ready after %s", restartLimit))
	defer cancel()
	err = await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) (err error) {
		proof, err = r.runsWithNew(ctx, c, old)
		return err
	})
	return proof, err
}

// runsWithNew checks whether another process of a component is ready, and serves with another
// certificate on every port.
func (r *rotation) runsWithNew(ctx context.Context, c framework.Component, old framework.Process) (proof string, err error) {
	ctx, cancel := agenthttp.Within(ctx, lookLimit)
	defer cancel()
	now, err := r.Process(ctx, c)
	switch {
	case err != nil:
		return "", err
	case now.PID == 0:
		return "", fmt.Errorf("%s is not running (last exit: %s)", c, now.LastExit)
	case now.PID == old.PID:
		return "", fmt.Errorf("the old process %d is still running", now.PID)
	}
	if err := r.ready(ctx, c); err != nil {
		return "", err
	}
	served, err := r.served(ctx, c, framework.ServingEndpoint.VerifiedChain)
	if err != nil {
		return "", err
	}
	certificates, err := changed(r.before[c], served)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d serves, after process %d%s", now.PID, old.PID, certificates), nil
}

// ready returns an error unless a component says that it is ready; controller manager and
// scheduler say so to the kubelet alone.
func (r *rotation) ready(ctx context.Context, c framework.Component) error {
	switch c {
	case framework.Etcd:
		_, err := r.cluster.etcdVersion(ctx, r.node)
		return err
	case framework.APIServer:
		_, err := await.API(ctx, r.cluster.entrance(r.node), "/readyz", await.Anything)
		return err
	}
	found, err := r.cluster.look(ctx)
	if err != nil {
		return err
	}
	p, ok := found.pods[r.name][c]
	if !ok {
		return fmt.Errorf("%s has no pod", c)
	}
	if why := podNotReady(p); why != "" {
		return fmt.Errorf("%s is not ready: %s", c, why)
	}
	return nil
}

// served returns the fingerprint of the certificate that a component serves on each port that
// clients reach; controller manager and scheduler have none.
func (n *node) served(ctx context.Context, c framework.Component, read func(framework.ServingEndpoint, context.Context) ([]*x509.Certificate, error),
) (map[string]string, error) {
	ports := map[string]string{}
	endpoints, err := n.ServingEndpoints(c)
	if err != nil {
		return ports, nil // it serves nothing to others
	}
	for _, e := range endpoints {
		chain, err := read(e, ctx)
		if err != nil {
			return nil, fmt.Errorf("failed to read the certificate that %s serves on port %s of %s: %w", c, e.Name, e.Address, err)
		}
		ports[e.Name] = fmt.Sprintf("%x", sha256.Sum256(chain[0].Raw))
	}
	return ports, nil
}

// changed describes the certificates that ports serve now; it is an error if one is the same as
// before.
func changed(before, now map[string]string) (proof string, err error) {
	for _, port := range slices.Sorted(maps.Keys(now)) {
		if now[port] == before[port] {
			return "", fmt.Errorf("port %s serves the old certificate, with fingerprint %.16s", port, now[port])
		}
		proof += fmt.Sprintf("; %s: certificate with fingerprint %.16s instead of %.16s", port, now[port], before[port])
	}
	return proof, nil
}

// CAClients implements framework.CertificateRotator. The CA is not replaced.
func (c *Cluster) CAClients() (map[string]rest.TLSClientConfig, error) {
	cas, err := cert.ParseCertsPEM(c.admin.CAData)
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA in kind's kubeconfig of cluster %s: %w", c.Name(), err)
	}
	return map[string]rest.TLSClientConfig{cas[0].Subject.CommonName: c.admin.TLSClientConfig}, nil
}
