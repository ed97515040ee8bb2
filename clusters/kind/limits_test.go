package kind

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// What the provider says that its clusters cannot do is what they do not have the ability for.
func TestLacksChange(t *testing.T) {
	var c any = (*Cluster)(nil)
	able := map[string]bool{"downgrade": false} // kubeadm refuses it
	_, able["add-node"] = c.(framework.Scaler)
	_, able["remove-node"] = c.(framework.Scaler)
	_, able["replace-node"] = c.(framework.NodeReplacer)
	_, able["upgrade"] = c.(framework.Upgrader)
	_, able["upgrade-etcd"] = c.(framework.EtcdUpgrader)
	_, able["reconfigure"] = c.(framework.Reconfigurer)
	_, able["rotate-certificates"] = c.(framework.CertificateRotator)
	_, able["rotate-ca"] = c.(framework.CARotator)
	for change, can := range able {
		if why := (Provider{}).LacksChange(change); (why == "") != can {
			t.Errorf("%s: %q, and it can: %t", change, why, can)
		}
	}
}
