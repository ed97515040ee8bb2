package ginkgotest

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// TestSelection checks that Ginkgo's filters and the profile select what runs, and that a dry run
// lists it.
func TestSelection(t *testing.T) {
	in := func(accept func(*scenarios.Scenario) bool) (names []string) {
		for _, s := range scenarios.All() {
			if accept(s) {
				names = append(names, s.Metadata.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	area := func(s *scenarios.Scenario, area string) bool {
		return slices.ContainsFunc(s.Spec.Requirements, func(r scenarios.Settles) bool { return strings.HasPrefix(r.ID, "HA-"+area+"-") })
	}
	id := func(s *scenarios.Scenario, id string) bool {
		return slices.ContainsFunc(s.Spec.Requirements, func(r scenarios.Settles) bool { return r.ID == id })
	}
	injects := func(s *scenarios.Scenario, fault string) bool {
		return slices.ContainsFunc(s.Spec.Timeline, func(step engine.Step) bool { return step.Inject != nil && step.Inject.Fault == fault })
	}
	smoke := in(func(s *scenarios.Scenario) bool { return s.In("smoke") })
	coreQR := in(func(s *scenarios.Scenario) bool { return s.In("core") && area(s, "QR") })
	file := write(t, "mine.yaml", strings.ReplaceAll(ownScenario, "NAME", "mine"))
	for name, tc := range map[string]struct {
		env, args []string
		want      []string
	}{
		"nothing":                 {nil, nil, smoke},
		"profile":                 {nil, []string{"--profile", "core"}, in(func(s *scenarios.Scenario) bool { return s.In("core") })},
		"variable":                {[]string{"HOLDFAST_PROFILE=core"}, nil, in(func(s *scenarios.Scenario) bool { return s.In("core") })},
		"flag before variable":    {[]string{"HOLDFAST_PROFILE=core"}, []string{"--profile", "smoke"}, smoke},
		"filter":                  {nil, []string{"-ginkgo.label-filter=core && QR"}, coreQR},
		"filter and profile":      {nil, []string{"-ginkgo.label-filter=QR", "--profile", "core"}, coreQR},
		"a requirement or others": {nil, []string{"-ginkgo.label-filter=HA-QR-005 || (core && LE)"}, in(func(s *scenarios.Scenario) bool { return id(s, "HA-QR-005") || s.In("core") && area(s, "LE") })},
		"a fault":                 {nil, []string{"-ginkgo.label-filter=fault-power-off && needs-PowerSwitch && disruptive"}, in(func(s *scenarios.Scenario) bool { return injects(s, "power-off") })},
		"focus":                   {nil, []string{"-ginkgo.focus=quorum-lost"}, []string{"quorum-lost"}},
		"own":                     {nil, []string{"--file", file}, []string{"mine"}},
		"own and smoke":           {nil, []string{"--file", file, "-ginkgo.label-filter=own || smoke"}, append([]string{"mine"}, smoke...)},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, 0, append([]string{"-ginkgo.dry-run", "-ginkgo.json-report=report.json"}, tc.args...)...)
			cmd.Env = append(cmd.Env, tc.env...)
			if text, code := output(t, cmd); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, text)
			}
			got := names(t, filepath.Join(cmd.Dir, "report.json"))
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("runs %v, want %v", got, tc.want)
			}
			if left, _ := filepath.Glob(filepath.Join(cmd.Dir, "results")); len(left) > 0 {
				t.Errorf("a dry run has made %v", left)
			}
		})
	}
}

// TestOtherSpecs checks that a spec beside the scenarios runs whatever limits those, and that only
// Ginkgo's own filters exclude it.
func TestOtherSpecs(t *testing.T) {
	beside := filepath.Join(t.TempDir(), "beside.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-o", beside, "./beside").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v: %s", err, out)
	}
	file := write(t, "mine.yaml", strings.ReplaceAll(ownScenario, "NAME", "mine"))
	for name, tc := range map[string]struct {
		args []string
		want bool // the other spec runs
		with string
	}{
		"nothing":           {nil, true, "etcd-leader-killed"},
		"profile":           {[]string{"--profile", "core"}, true, "quorum-lost"},
		"own scenarios":     {[]string{"--file", file}, true, "mine"},
		"focus on another":  {[]string{"-ginkgo.focus=quorum-lost"}, false, "quorum-lost"},
		"filter by a label": {[]string{"-ginkgo.label-filter=core"}, false, "quorum-lost"},
		"skip a scenario":   {[]string{"-ginkgo.skip=quorum-lost"}, true, "etcd-leader-killed"},
		"focus on it":       {[]string{"-ginkgo.focus=our operator"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, 0, append([]string{"-ginkgo.dry-run", "-ginkgo.json-report=report.json"}, tc.args...)...)
			cmd.Path, cmd.Args[0] = beside, beside
			if text, code := output(t, cmd); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, text)
			}
			got := names(t, filepath.Join(cmd.Dir, "report.json"))
			if slices.Contains(got, "reconciles") != tc.want || tc.with != "" && !slices.Contains(got, tc.with) || tc.with == "" && len(got) != 1 {
				t.Errorf("runs %v", got)
			}
		})
	}
	// It needs no cluster, and leaves no results.
	cmd := command(t, 0, "-ginkgo.focus=our operator")
	cmd.Path, cmd.Args[0] = beside, beside
	if text, code := output(t, cmd); code != 0 || !strings.Contains(text, "1 Passed") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if left, _ := filepath.Glob(filepath.Join(cmd.Dir, "results")); len(left) > 0 {
		t.Errorf("it has made %v", left)
	}
}

// TestFolder checks that the ginkgo program recognizes the package as a Ginkgo suite and passes
// its flags.
func TestFolder(t *testing.T) {
	text, code := output(t, exec.CommandContext(t.Context(), "go", "tool", "ginkgo", "run", "--dry-run", "--no-color", "--focus=quorum-lost", ".."))
	if code != 0 || !strings.Contains(text, "Will run 1 of ") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

func TestBadFlags(t *testing.T) {
	odd := write(t, "odd.yaml", "kind: Nothing\n")
	for _, tc := range []struct{ args, want string }{
		{"--provider cloud", "--provider cloud: want one of local, kind"},
		{"--profile huge", "--profile huge: want one of smoke, core, full"},
		{"--cluster " + odd, odd},
		{"--file " + odd, odd},
		{"--file nowhere.yaml", "nowhere.yaml"},
		{"--seed x", `invalid value "x" for flag -seed`},
	} {
		if text, code := output(t, command(t, 0, append([]string{"-ginkgo.dry-run"}, strings.Fields(tc.args)...)...)); code == 0 || !strings.Contains(text, tc.want) {
			t.Errorf("%s: exit code %d, without %q:\n%s", tc.args, code, tc.want, text)
		}
	}
	cmd := command(t, 0, "-ginkgo.dry-run")
	cmd.Env = append(cmd.Env, "HOLDFAST_SEED=x")
	if text, code := output(t, cmd); code == 0 || !strings.Contains(text, "HOLDFAST_SEED=x: ") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}
