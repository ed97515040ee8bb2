// Package system provides what the providers need from their machine: the directory of state
// that outlives a command, the processes in /proc, the available IDs and namespaces, and the
// installed programs.
package system
