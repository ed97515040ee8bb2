// Package clock shifts the wall clock of one running process.
//
// Linux has no namespace for the wall clock. But nearly every program reads it through code
// that the kernel maps into the process, the vDSO. The package patches the beginning of its
// functions clock_gettime, gettimeofday and time with a jump to our own code in the unused end
// of the vDSO's last page. That code makes the real system call and shifts CLOCK_REALTIME, its
// coarse variant and CLOCK_TAI. The monotonic clocks are unchanged, as when an administrator or
// NTP sets a real machine's clock. A drifting clock is computed from the real one at each call,
// so it needs no further updates.
//
// The threads are stopped with ptrace for about a millisecond; nothing is changed while one of
// them is at, or will return to, the patched code. Restoring writes back the kernel's own
// bytes; our code stays behind, unreachable, since a thread may still be about to leave it.
//
// Limits: amd64 only; programs that make the system call themselves, file times and timers of
// CLOCK_REALTIME are not shifted; a process that executes another program has the real clock
// again (Start sets it there). In a shifted process each clock read is a system call.
//
// The process that patches another one must not wait for it with wait4 or waitid in that time:
// they would mistake ptrace's stops for its exit. Wait on a pidfd first.
//
// The tests have no requirements: go test ./clusters/local/clock
package clock
