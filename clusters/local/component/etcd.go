package component

import (
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

// etcd returns the command of the node's etcd member. Its flags are those that
// 3.5, 3.6 and 3.7 have in common. Timings, fsync and all else that decides how
// safe it is are etcd's own defaults.
func etcd(n Node) Command {
	state := "new"
	if n.Existing {
		state = "existing"
	}
	members := make([]string, len(n.Members))
	for i, member := range n.Members {
		members[i] = member.Name + "=" + url("https", member.Address, EtcdPeerPort)
	}
	listen := EtcdURL(n.Address)
	if !n.OnlyNodeAddress {
		listen += "," + EtcdURL(n.loopback())
	}
	metrics := url("http", n.loopback(), etcdMetricsPort)
	f := flags{
		"name":                        n.Name,
		"data-dir":                    n.Data,
		"listen-client-urls":          listen,
		"advertise-client-urls":       EtcdURL(n.Address),
		"listen-peer-urls":            url("https", n.Address, EtcdPeerPort),
		"initial-advertise-peer-urls": url("https", n.Address, EtcdPeerPort),
		"initial-cluster":             strings.Join(members, ","),
		"initial-cluster-state":       state,
		"initial-cluster-token":       n.Cluster,
		// Plain HTTP, for health and metrics only, reached from the node alone.
		"listen-metrics-urls":   metrics,
		"client-cert-auth":      "true",
		"trusted-ca-file":       n.pki(pki.EtcdClientCACert),
		"cert-file":             n.pki(pki.EtcdServerCert),
		"key-file":              n.pki(pki.EtcdServerKey),
		"peer-client-cert-auth": "true",
		"peer-trusted-ca-file":  n.pki(pki.EtcdCACert),
		"peer-cert-file":        n.pki(pki.EtcdPeerCert),
		"peer-key-file":         n.pki(pki.EtcdPeerKey),
		"logger":                "zap",
	}
	return Command{
		Component: framework.Etcd,
		Binary:    "etcd",
		Args:      f.args(n.ExtraArgs[framework.Etcd]),
		Dirs:      []string{n.Data},
		// Not a linearizable read: a member without a quorum is alive.
		Health: metrics + "/health?serializable=true",
	}
}
