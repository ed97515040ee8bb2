// Package framework is what a scenario sees of the world: a Cluster with its
// Nodes and Entrances, and the abilities that a provider may offer on them.
//
// The packages below it are the parts of a run: fault breaks the cluster,
// workload puts traffic on it, observe watches it, record keeps what was seen,
// judge says what it means, and engine ties them to one experiment. None of
// them knows a provider.
package framework
