package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFollowAudit follows a log while it is rotated and the agent is restarted, through the agent
// and without it.
func TestFollowAudit(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.up()
	log := n.config.Audit
	write(t, log, "before\nhalf")
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []string
	done := make(chan error, 1)
	go func() {
		done <- n.FollowAudit(ctx, func(entry []byte) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(entry))
		})
	}()
	var direct []string
	alone := make(chan error, 1)
	go func() {
		alone <- FollowLog(ctx, log, func(entry []byte) { direct = append(direct, string(entry)) })
	}()
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
	time.Sleep(100 * time.Millisecond)
	add(" a line\n1\n2")
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
	// What was half there when it began is an entry that came after.
	if want := []string{"half a line", "1", "2", "3", "4", "5", "6"}; !slices.Equal(got, want) || !slices.Equal(direct, want) {
		t.Errorf("the entries are %q, without the agent %q, want %q", got, direct, want)
	}
}
