package component

import (
	"path/filepath"
	"strconv"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

// issuer is the name under which service account tokens are issued.
const issuer = "https://kubernetes.default.svc.cluster.local"

// apiServer returns the command of the node's API server.
func apiServer(n Node) Command {
	policy := filepath.Join(n.Config, "audit-policy.yaml")
	f := flags{
		"advertise-address": n.Address.String(),
		"bind-address":      n.bind(),
		"secure-port":       strconv.Itoa(APIServerPort),

		"etcd-servers":  EtcdURL(n.loopback()),
		"etcd-cafile":   n.pki(pki.EtcdCACert),
		"etcd-certfile": n.pki(pki.APIServerEtcdCert),
		"etcd-keyfile":  n.pki(pki.APIServerEtcdKey),

		"tls-cert-file":        n.pki(pki.APIServerCert),
		"tls-private-key-file": n.pki(pki.APIServerKey),
		"client-ca-file":       n.pki(pki.ClientCACert),

		"authorization-mode":               "Node,RBAC",
		"enable-admission-plugins":         "NodeRestriction",
		"allow-privileged":                 "true",
		"service-cluster-ip-range":         serviceCIDR,
		"service-account-issuer":           issuer,
		"service-account-key-file":         n.pki(pki.ServiceAccountPub),
		"service-account-signing-key-file": n.pki(pki.ServiceAccountKey),

		"proxy-client-cert-file":             n.pki(pki.FrontProxyCert),
		"proxy-client-key-file":              n.pki(pki.FrontProxyKey),
		"requestheader-client-ca-file":       n.pki(pki.FrontProxyCACert),
		"requestheader-allowed-names":        "front-proxy-client",
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",

		"endpoint-reconciler-type": "lease",

		"audit-policy-file": policy,
		"audit-log-path":    filepath.Join(n.Logs, auditLog),
		// A request does not wait until its entry is on disk.
		"audit-log-mode":      "batch",
		"audit-log-maxsize":   "64",
		"audit-log-maxbackup": "2",

		"profiling": "false",
	}
	return Command{
		Component: framework.APIServer,
		Binary:    "kube-apiserver",
		Args:      f.args(n.ExtraArgs[framework.APIServer]),
		Files:     map[string][]byte{policy: []byte(clusters.AuditPolicy)},
		Dirs:      []string{n.Logs},
		Health:    APIServerURL(n.Address) + "/readyz",
	}
}

// controllerManager returns the command of the node's controller manager.
func controllerManager(n Node) Command {
	config := n.pki(pki.ControllerManagerConfig)
	f := n.elected(config, ControllerManagerPort, pki.ControllerManagerCert, pki.ControllerManagerKey)
	f["cluster-name"] = n.Cluster
	f["cluster-signing-cert-file"] = n.pki(pki.SigningCACert)
	f["cluster-signing-key-file"] = n.pki(pki.CAKey)
	f["root-ca-file"] = n.pki(pki.CACert)
	f["service-account-private-key-file"] = n.pki(pki.ServiceAccountKey)
	f["service-cluster-ip-range"] = serviceCIDR
	f["use-service-account-credentials"] = "true"
	// A new leader makes an account and a token for each of its 40 or so
	// controllers. At the default of 20 requests a second (30 at once) that
	// alone takes 5 s.
	f["kube-api-qps"] = "100"
	f["kube-api-burst"] = "200"
	// No volume is ever mounted, so the plugin directory is not needed.
	f["flex-volume-plugin-dir"] = filepath.Join(n.Config, "no-volume-plugins")
	return Command{
		Component:  framework.ControllerManager,
		StartAfter: framework.APIServer,
		Binary:     "kube-controller-manager",
		Args:       f.args(n.ExtraArgs[framework.ControllerManager]),
		Health:     url("https", n.Address, ControllerManagerPort) + "/healthz",
	}
}

// scheduler returns the command of the node's scheduler.
func scheduler(n Node) Command {
	f := n.elected(n.pki(pki.SchedulerConfig), SchedulerPort, pki.SchedulerCert, pki.SchedulerKey)
	return Command{
		Component:  framework.Scheduler,
		StartAfter: framework.APIServer,
		Binary:     "kube-scheduler",
		Args:       f.args(n.ExtraArgs[framework.Scheduler]),
		Health:     url("https", n.Address, SchedulerPort) + "/healthz",
	}
}

// elected are the flags that controller manager and scheduler share.
func (n Node) elected(kubeconfig string, port int, cert, key string) flags {
	return flags{
		"bind-address":              n.bind(),
		"secure-port":               strconv.Itoa(port),
		"tls-cert-file":             n.pki(cert),
		"tls-private-key-file":      n.pki(key),
		"kubeconfig":                kubeconfig,
		"authentication-kubeconfig": kubeconfig,
		"authorization-kubeconfig":  kubeconfig,
		// The CAs are given here and not read from the API server, which may not be up yet when
		// this starts.
		"authentication-skip-lookup":   "true",
		"client-ca-file":               n.pki(pki.ClientCACert),
		"requestheader-client-ca-file": n.pki(pki.FrontProxyCACert),
		"leader-elect":                 "true",
		"profiling":                    "false",
	}
}
