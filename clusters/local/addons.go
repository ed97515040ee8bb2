package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-ha/holdfast/clusters/local/addons"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

// addonsDir holds the files of a node's add-ons, below its machine's directory.
const addonsDir = "addons"

// addAddonManager puts an add-on manager and the add-ons of the node's release on its
// machine, if the cluster file has one.
func (c *Cluster) addAddonManager(n *node) error {
	interval, release, ok, err := n.spec.AddonManager()
	if err != nil || !ok {
		return err
	}
	m := n.machine
	config, err := c.lasting.Kubeconfig(pki.AddonManager(), component.APIServerURL(n.Address()))
	if err != nil {
		return err
	}
	path, dir := filepath.Join(m.dir, pkiDir, "addon-manager.conf"), filepath.Join(m.dir, addonsDir)
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return fmt.Errorf("failed to write the kubeconfig of the add-on manager of %s: %w", m.name, err)
	}
	if err := addons.Write(dir, release); err != nil {
		return fmt.Errorf("on %s: %w", m.name, err)
	}
	n.addons = release
	m.config.Components = append(m.config.Components, m.runsItself(framework.AddonManager, roleAddons, path, dir, interval.String()))
	return nil
}

// upgradeAddons replaces the files of the node's add-ons by those of a release, as an upgrade
// does. The manager reads them at its next pass. A node whose release is fixed by the cluster
// file keeps its own.
func (n *node) upgradeAddons(ctx context.Context, version string) error {
	spec := n.spec
	spec.KubernetesVersion = version
	_, release, ok, err := spec.AddonManager()
	if err != nil || !ok || n.addons == release {
		return err
	}
	return framework.DoStep(ctx, n.Name(), "write the add-ons of "+release, func(context.Context) (string, error) {
		dir := filepath.Join(n.machine.dir, addonsDir)
		if err := addons.Write(dir, release); err != nil {
			return "", err
		}
		n.addons = release
		return fmt.Sprintf("%s has the files of %s", dir, release), nil
	})
}
