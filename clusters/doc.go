// Package clusters contains what all providers share: the cluster file, which describes a
// control plane to test.
//
// A cluster file is YAML in the shape of a Kubernetes resource; docs/cluster.md has every field.
//
//	apiVersion: holdfast.dev/v1alpha1
//	kind: Cluster
//	metadata:
//	  name: demo
//	spec:
//	  nodes:              # or a number
//	  - {}
//	  - kubernetesVersion: v1.36.3
//	    extraArgs:
//	      kube-apiserver:
//	        max-requests-inflight: 800
//
// Extra arguments replace the provider's own flags of the same name, so that any configuration,
// including broken ones, can be tested. A node's override the cluster's.
//
// Reading is strict: an unknown field is an error that names the line and the known fields. Run
// the tests with go test ./clusters; the fuzz target is FuzzParse.
package clusters
