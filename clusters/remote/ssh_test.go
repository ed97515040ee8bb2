package remote

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRunEnds: a process that ssh has started, such as a ProxyCommand, keeps no script from ending.
func TestRunEnds(t *testing.T) {
	for _, tc := range []struct {
		name, ssh, want string
		limit           time.Duration
		err             error
	}{
		{"ssh hangs", "sleep 60 & sleep 60", "", 2 * time.Second, context.DeadlineExceeded},
		{"ssh has ended", "sleep 60 & echo done", "done\n", time.Minute, nil},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+tc.ssh+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
		began := time.Now()
		out, err := shell{node: "node-1", destination: "cp"}.run(ctx, "true", nil)
		cancel()
		if out != tc.want || !errors.Is(err, tc.err) || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %q, error %v, after %s", tc.name, out, err, time.Since(began))
		}
	}
}
