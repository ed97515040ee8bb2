package clusters

// AuditPolicy logs who did what to which object, once per request: when it is answered, or when a
// watch ends.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
# A standby shows in its reads of the lease.
- level: Metadata
  users: ["system:kube-controller-manager", "system:kube-scheduler"]
  verbs: [get]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
# Other gets change nothing and are most requests, such as health checks and discovery.
- level: None
  verbs: [get]
- level: Metadata
`
