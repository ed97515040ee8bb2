package fault

// Stop stops a component gracefully (SIGTERM). If it still runs 30 s later, it receives SIGKILL,
// as from the kubelet: the fault was then not graceful, and settles nothing that depends on that.
var Stop = &Fault{
	Name:    "stop",
	Summary: "stops a component gracefully (SIGTERM); if it still runs 30 s later it is killed (SIGKILL), as the kubelet does, and requirements that depend on a graceful stop are inconclusive",
	Targets: processTargets,
	Params:  []Param{restartParam},
	Needs:   []string{"Stopper", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
	Example: "kcm/active",
	Effects: ends,
	Prepare: func(r Request) (Inject, error) { return r.ending(true) },
}
