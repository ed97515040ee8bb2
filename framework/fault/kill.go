package fault

// Kill kills a component without notice (SIGKILL).
var Kill = &Fault{
	Name:    "kill",
	Summary: "kills a component without notice (SIGKILL)",
	Targets: processTargets,
	Params:  []Param{restartParam},
	Needs:   []string{"Killer", "Starter", "ProcessReporter", "EtcdAccess (for etcd)"},
	Example: "etcd/leader restart=true",
	Effects: ends,
	Prepare: func(r Request) (Inject, error) { return r.ending(false) },
}
