// Package keeper keeps clusters that outlive the command that made them, of any provider
// whose clusters can be kept (Access, Kept).
//
// Up makes a cluster and leaves it running, Open finds it again, and a Handle asks it for
// its state, injects faults, heals them, and ends it. A cluster is in the hands of two
// processes, both of them this program, re-executed by Main:
//
//   - the keeper, which holds the lock of the cluster's state directory;
//   - the server, which the keeper starts where the provider's clusters can be made (in
//     a sandbox, or in the network of a Docker engine). It makes the cluster, carries
//     the ledger of the active faults, heals them in time and answers on the control
//     socket.
//
// The control socket and the forwarder on the loopback are opened by the keeper, since
// sockets made outside a network namespace work inside it. When the keeper ends, however
// it ends, the server deletes the cluster. What is left where both were killed goes with
// Down, or with the next cluster of the name.
//
// A cluster that somebody else has made can be kept as well (UpOptions.Attach), of
// providers that are a clusters.Attacher: it is taken over rather than made, and let go of
// rather than ended.
//
// Files of the state directory: lock, keeper.json (what the keeper was told),
// cluster.json (the description), control.sock, kubeconfig, keeper.log, and
// logs/faults.jsonl (every change of an injection).
//
// The tests keep a cluster of a provider that does nothing, and need nothing:
//
//	go test ./clusters/keeper
package keeper
