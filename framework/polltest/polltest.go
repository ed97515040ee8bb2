// Package polltest waits for conditions in tests.
package polltest

import (
	"testing"
	"time"
)

// Until waits until a condition holds, and fails the test if that takes more than 20 s.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, 20*time.Second, what, holds)
}

// Within waits until a condition holds, and fails the test if that takes longer than a limit.
func Within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
