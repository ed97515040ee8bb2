package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestFollowAudit follows a log while it is rotated and the agent is restarted, through the agent
// and without it.
func TestFollowAudit(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.up()
	log := n.config.Audit
	write(t, log, "before\nhalf")
	// What is half there when following begins is an entry that comes after.
	at, _, err := n.readAudit(t.Context(), nil)
	must(t, err)
	if alone, err := endOf(log); err != nil || at != alone || at.Offset != int64(len("before\n")) {
		t.Errorf("following begins at %v, without the agent at %v (%v)", at, alone, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got, direct []string
	into := func(entries *[]string) func([]byte) {
		return func(entry []byte) {
			mu.Lock()
			defer mu.Unlock()
			*entries = append(*entries, string(entry))
		}
	}
	done, alone := make(chan error, 1), make(chan error, 1)
	go func() { done <- n.FollowAudit(ctx, into(&got)) }()
	go func() { alone <- FollowLog(ctx, log, into(&direct)) }()
	follows := func(last string) {
		t.Helper()
		eventually(t, "the entry "+last+" comes", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) > 0 && got[len(got)-1] == last
		})
	}
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, err)
		must(t, f.Close())
	}
	eventually(t, "both follow the log", func() bool {
		add(" begun\n")
		mu.Lock()
		defer mu.Unlock()
		return len(got) > 0 && len(direct) > 0
	})
	add("1\n2")
	follows("1")
	add("\n")
	follows("2")
	n.kill()
	add("3\n")
	for i := range 2 {
		must(t, os.Rename(log, strings.TrimSuffix(log, ".log")+fmt.Sprintf("-2026-01-0%dT00-00-00.000.log", i+1)))
		add(fmt.Sprintf("%d\n", 4+i))
	}
	n.up()
	follows("5")
	add("6\n")
	cancel()
	must(t, <-done)
	must(t, <-alone)
	for who, entries := range map[string][]string{"the agent": got, "FollowLog": direct} {
		entries = slices.DeleteFunc(entries, func(entry string) bool { return strings.HasSuffix(entry, " begun") })
		if want := []string{"1", "2", "3", "4", "5", "6"}; !slices.Equal(entries, want) {
			t.Errorf("the entries by %s are %q, want %q", who, entries, want)
		}
	}
}
