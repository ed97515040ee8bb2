// Package keeper keeps clusters that outlive the command that created them, for any provider
// whose clusters can be kept (Access, Kept).
//
// Up creates a cluster and leaves it running, Open finds it again, and a Handle queries its
// state, injects faults, heals them, and deletes it. Two processes own a cluster, both of them
// this program, re-executed by Main:
//
//   - the keeper, which holds the lock of the cluster's state directory;
//   - the server, which the keeper starts where the provider's clusters can be made (in
//     a sandbox, or in the network of a Docker engine). It makes the cluster, carries
//     the list of active faults, heals them in time and answers on the control
//     socket.
//
// The keeper opens the control socket and the forwarder on the loopback, since sockets made
// outside a network namespace work inside it. When the keeper exits or is killed, the server
// deletes the cluster. If both were killed, Down removes what is left, or the next cluster with
// the same name.
//
// A cluster that another tool created can be kept as well (UpOptions.Attach), if the provider
// is a clusters.Attacher: the keeper attaches to it instead of creating it, and detaches
// instead of deleting it.
//
// Files of the state directory: lock, keeper.json (the keeper's configuration),
// cluster.json (the description), control.sock, kubeconfig, keeper.log, and
// logs/faults.jsonl (every change of an injection).
//
// The tests keep a cluster of a provider that does nothing, and have no requirements:
//
//	go test ./clusters/keeper
package keeper
