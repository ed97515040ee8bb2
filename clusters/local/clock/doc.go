// Package clock moves the wall clock of a process that runs, and of no other.
//
// Linux has no namespace for the wall clock. What nearly every program calls to
// read it, though, is code that the kernel maps into the process, the vDSO. Its
// functions clock_gettime, gettimeofday and time are made to begin with a jump
// to code of our own, put into the empty end of the vDSO's last page, which makes
// the real system call and moves CLOCK_REALTIME, its coarse twin and CLOCK_TAI.
// The monotonic clocks are left alone, as they are when an administrator or NTP
// moves a real machine's clock. A clock that drifts is computed from the real
// one at each call, so nobody has to keep pushing it.
//
// The threads are stopped with ptrace for about a millisecond; nothing is
// changed while one of them is, or will return to, where the change is made.
// Restoring puts back the kernel's own bytes; the code that was jumped to stays
// behind, unreachable, since a thread may still be about to leave it.
//
// Limits: amd64 only; programs that make the system call themselves, file times
// and timers of CLOCK_REALTIME are not moved; a process that executes another
// program has the real clock again (Start sets it there). While it is moved,
// reading a clock costs a system call.
//
// A process that is patched must not be waited for, by the process that
// patches it, with wait4 or waitid in the meantime: they would take ptrace's
// stops for its end. Wait on a pidfd first.
//
// The tests need nothing: go test ./clusters/local/clock
package clock
