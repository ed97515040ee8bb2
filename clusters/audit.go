package clusters

// AuditPolicy logs who did what to which object, once per request. One stage only halves the
// log; a watch is logged when it ends.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
# That an instance stands by shows in its reads of the lease.
- level: Metadata
  users: ["system:kube-controller-manager", "system:kube-scheduler"]
  verbs: [get]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
# What else is only looked at changes nothing, and is most of what is asked for, health
# checks and the discovery of the API among it.
- level: None
  verbs: [get]
- level: Metadata
`
