// Package system is what the providers ask of the machine that they run on: the
// directory in which they keep what outlives a command, its processes as /proc
// shows them, the identities and namespaces that it lets them have, and the
// programs that are installed.
package system
