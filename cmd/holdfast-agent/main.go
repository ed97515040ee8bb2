// Command holdfast-agent is the node agent alone: what `holdfast` copies to the nodes of clusters
// over SSH and of kind if it finds it next to itself, built from the same commit. It is a fifth of
// holdfast, since it has no etcd server, no local provider, no faults and no judges. Its roles are
// chosen by the name under which a node starts it; see clusters/agent.
package main

import (
	"fmt"
	"os"

	"github.com/holdfast-ha/holdfast/clusters/agent"
)

func main() {
	agent.Main()
	fmt.Fprintln(os.Stderr, "holdfast-agent is not run by hand: holdfast copies it to nodes and starts it there; keep it next to holdfast")
	os.Exit(2)
}
