// Package disk is a disk that can be made to fail: a FUSE file system that
// passes everything through to a directory and can, at any time, be slow,
// return errors, be full, lie about syncs, hold flipped bytes, be wiped, and
// forget at a loss of power what was not synced.
//
// It is meant for the data directory of a database, such as etcd's: regular
// files and directories; links, devices and extended attributes are refused.
//
// # What a loss of power loses
//
// Every change since the last sync, and nothing else. Changes of data and size belong to a
// file, and fsync or fdatasync of that file makes them durable. Changes of names (create,
// mkdir, rename, unlink, rmdir) are in a journal in their order; a sync of a directory makes
// its own durable, a sync of a file those of its own name, and with them the earlier ones that
// they depend on. ext4, xfs and btrfs have this in common. Changes of mode, owner and times are
// durable immediately.
//
// # Cost
//
// An operation that reaches the disk costs a round trip to this process; see
// BenchmarkSync. Reads of what is in the kernel's page cache cost nothing.
//
// # Processes and privileges
//
// Serve runs a disk as a process of its own, so that a stuck one can be killed, which makes the
// kernel fail its waiting requests; Start starts one and returns a client. /dev/fuse must be
// accessible to the user, and mounting needs a user and mount namespace in which the process is
// root. The tests create one:
//
//	go test ./clusters/local/disk
package disk
