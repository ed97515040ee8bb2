package remote

import (
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
		err             string
	}{
		{"ssh hangs", "sleep 60 & sleep 60", "", 2 * time.Second, "on node-1: a script did not finish within 2s: does a disk or a process hang there? (try: ssh cp ps ax)"},
		{"ssh has ended", "sleep 60 & echo done", "done\n", time.Minute, ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+tc.ssh+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		began := time.Now()
		out, err := shell{node: "node-1", destination: "cp"}.runFor(t.Context(), tc.limit, "true", nil)
		if out != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %q, error %v, after %s", tc.name, out, err, time.Since(began))
		}
	}
}
