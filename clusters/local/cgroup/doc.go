// Package cgroup has the kernel limit what processes get, by control groups of
// either version: those of version 1, one hierarchy a controller, and the unified
// one of version 2.
//
// A Tree is a group of its own with a group for each set of processes in it. Trees
// are made beside or below the place where this process is, so that they stay under
// whatever limits this process, and only while they are needed. The kernel keeps a
// group when its processes die, so a tree is locked by its owner for as long as that
// lives, and Sweep removes those that nobody holds. Its name says whose it is.
//
// Tests of the real thing need a hierarchy in which this user may make groups and
// are skipped without one: go test ./clusters/local/cgroup
package cgroup
