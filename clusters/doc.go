// Package clusters contains what all providers share: the cluster file, which describes a
// control plane to test.
//
// A cluster file is YAML in the shape of a Kubernetes resource:
//
//	apiVersion: holdfast.dev/v1alpha1
//	kind: Cluster
//	metadata:
//	  name: demo
//	spec:
//	  nodes: 3                    # 1, 3, 5, 7, or a list (see below)
//	  kubernetesVersion: v1.37.1
//	  etcdVersion: ""             # empty: the etcd inside holdfast
//	  workers: 2                  # nodes simulated with kwok
//	  registerNodes: false        # true: control-plane nodes send heartbeats, too
//	  data: memory                # or disk
//	  election:                   # lease, or supervisor: a podmaster elects it
//	    kube-scheduler: lease
//	  leases:                     # in kube-system, of elected components that you run there
//	    cluster-autoscaler:       # times as below where they are left out
//	      leaseDuration: 15s
//	      renewDeadline: 10s
//	      retryPeriod: 2s
//	  disk: none                  # or fuse: disks under etcd that can fail
//	  loadBalancer:
//	    kind: builtin             # builtin, haproxy, nginx, dns, vip, on-demand, none
//	    healthCheck:
//	      disabled: false
//	      interval: 1s
//	      timeout: 1s
//	      fall: 2
//	      rise: 1
//	  etcdBalancer: affinity      # or round-robin; left out: none
//	  extraArgs:                  # component -> flag -> value
//	    kube-apiserver:
//	      max-requests-inflight: 800
//	    addon-manager:            # one on each node if it is named, none otherwise
//	      interval: 60s
//	  sysctls:                    # of the machines' network, where the kernel has them
//	    net.ipv4.tcp_rto_max_ms: 3000
//
// Instead of a number, nodes can be a list whose entries override settings of the cluster:
//
//	nodes:
//	- {}
//	- kubernetesVersion: v1.36.3
//	- name: odd-one
//	  extraArgs:
//	    kube-apiserver:
//	      endpoint-reconciler-type: none
//
// Extra arguments replace the provider's own flags of the same name, so that any configuration,
// including broken ones, can be tested. A node's override the cluster's.
//
// Reading is strict: an unknown field is an error that names the line and the known fields. Run
// the tests with go test ./clusters; the fuzz target is FuzzParse.
package clusters
