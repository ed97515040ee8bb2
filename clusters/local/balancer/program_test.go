package balancer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
)

// configCase is a change of a balancer's settings, and what its program's file then contains.
type configCase struct {
	name      string
	change    func(*Config)
	want, not []string
}

// testConfig renders a program's file for two backends. It must refuse the name bad for one of
// them.
func testConfig(t *testing.T, check clusters.HealthCheck, render func(Config) ([]byte, error), bad string, cases ...configCase) {
	t.Helper()
	c := Config{
		Listen:      "10.77.0.10:6443",
		Backends:    []Backend{{"node-1", "10.77.0.11:6443"}, {"node-2", "10.77.0.12:6443"}},
		HealthCheck: check,
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := c
			tc.change(&c)
			data, err := render(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(data), want) {
					t.Errorf("%q is missing in\n%s", want, data)
				}
			}
			for _, not := range tc.not {
				if strings.Contains(string(data), not) {
					t.Errorf("%q is in\n%s", not, data)
				}
			}
		})
	}
	c.Backends[0].Name = bad
	if _, err := render(c); err == nil {
		t.Errorf("no error for the name %q", bad)
	}
}

// startProgram writes a program's file, lets the program check it, which must print nothing that
// bad finds, and runs it until the test ends.
func startProgram(t *testing.T, file string, config []byte, path string, args, check []string, bad func(out string) bool) {
	t.Helper()
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, append(check, args...)...).CombinedOutput(); err != nil || bad(string(out)) {
		t.Fatalf("%s does not accept its configuration: %v\n%s", filepath.Base(path), err, out)
	}
	process := exec.Command(path, args...)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
}
