// Package cgroup limits the resources of processes by control groups of either version: those
// of version 1, one hierarchy per controller, and the unified one of version 2.
//
// A Tree is a group with a subgroup for each set of processes. Trees are created beside or
// below this process's group, so that they stay under the limits of this process, and only
// while they are needed. The kernel keeps a group when its processes die, so the owner locks
// its tree while it lives, and Sweep removes trees without a lock. A tree's name contains its
// owner.
//
// Tests with real groups need a hierarchy in which this user may create groups and are skipped
// otherwise: go test ./clusters/local/cgroup
package cgroup
