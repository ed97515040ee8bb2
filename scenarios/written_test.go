package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// written returns a file with one part that may be wrong.
func written(traffic, inject, wait, bound, extra string) string {
	return fmt.Sprintf(`apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: x}
spec:
  traffic: {%s}
  timeline:
  - inject: {%s, as: a}
  - wait: %s
  - heal: a
  requirements: [{id: MY-001, judge: availability, bound: "%s", fault: a}]
%s`, traffic, inject, wait, bound, extra)
}

const kill = "fault: kill, target: etcd/leader"

// nonsense has invalid files, with the line and a part of the error.
var nonsense = []struct{ file, want string }{
	{written("", "fault: kill, target: etcd/9", "8s", "2s", ""), "x.yaml:7: .*7 control-plane nodes at most"},
	{written("", "fault: disk-slow, target: apiserver/2", "8s", "2s", ""), "x.yaml:7: .*the fault accepts etcd"},
	{written("", "fault: latency, target: node/2, params: {delay: -5ms}", "8s", "2s", ""), "x.yaml:7: .*delay"},
	{written("", "fault: latency, target: node/2, params: {delay: 99999999999999999999ms}", "8s", "2s", ""), "x.yaml:7: .*delay"},
	{written("", `fault: cut, target: node/2, params: {port: "99999"}`, "8s", "2s", ""), "x.yaml:7: .*1 to 65535"},
	{written("", kill, "2000000h", "2s", ""), "x.yaml:8: spec.timeline[1].wait: .*24h0m0s at most"},
	{written("", kill, "1111111111111111111111111111111E", "2s", ""), "x.yaml:8: .*292 years"},
	{written("", kill, "0s", "2s", ""), "x.yaml:8: .*is not a time above zero"},
	{written("", kill, "8s", "0s", ""), "x.yaml:10: spec.requirements[0].bound: .*is not a time above zero"},
	{written("timeout: 0s", kill, "8s", "2s", ""), `x.yaml:5: spec.traffic.timeout is "0s": want a time above zero`},
	{written("timeout: 99999999999999999999s", kill, "8s", "2s", ""), "x.yaml:5: "},
	{written("timeout: 400h", kill, "8s", "2s", ""), "x.yaml:5: spec.traffic.timeout: .*1h0m0s"},
	{written("registers: {clientsPerEntrance: 1000000000}", kill, "8s", "2s", ""), "x.yaml:5: spec.traffic.registers.clientsPerEntrance is "},
	{written("registers: {clientsPerEntrance: 99999999999999999999}", kill, "8s", "2s", ""), "x.yaml:5: spec.traffic.registers.clientsPerEntrance is "},
	{written("registers: {clientsPerEntrance: 5000}", kill, "8s", "2s", ""), "x.yaml:5: .*1000 at most"},
	{written("", kill, "8s", "2s", "  minNodes: 5\n  maxNodes: 3\n"), "x.yaml:11: spec.minNodes: 5 is more than maxNodes, 3"},
	{written("", "fault: kil, target: etcd/leader", "8s", "2s", ""), "x.yaml:7: .*did you mean kill[?]"},
	{written("", kill, "4", "2s", ""), `x.yaml:8: spec.timeline[1].wait is 4: want a time with a unit or a formula, such as 4s or 2E + M`},
	{written("timeout: 5", kill, "8s", "2s", ""), `x.yaml:5: spec.traffic.timeout is "5": want a duration such as 500ms or 5s`},
	{written("", kill, "8s", "2s", "  minNodes: three\n"), `x.yaml:11: spec.minNodes is "three": want a whole number`},
	{strings.Replace(written("", kill, "8s", "2s", ""), "MY-001", "HA-QR-999", 1), `x.yaml:10: spec.requirements[0].id: "HA-QR-999" is not in the catalogue: similar IDs are HA-QR-0.*; an ID of your own must not begin with HA-`},
	{written("", "fault: kill, target: etdc/leader", "8s", "2s", ""), "x.yaml:7: .*did you mean etcd[?]"},
}

func TestNonsense(t *testing.T) {
	for _, tt := range nonsense {
		_, err := Parse("x.yaml", []byte(tt.file))
		if err == nil {
			t.Errorf("taken, want %s:\n%s", tt.want, tt.file)
			continue
		}
		where, what, _ := strings.Cut(tt.want, ".*")
		what = strings.ReplaceAll(what, "[?]", "?")
		if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), where) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v\nwant %s", err, tt.want)
		}
	}
	if _, err := Parse("x.yaml", []byte(written("", kill, "8s", "2s", ""))); err != nil {
		t.Errorf("a file without nonsense: %v", err)
	}
}

// All errors are reported in the order of the file.
func TestOrderOfProblems(t *testing.T) {
	_, err := Parse("x.yaml", []byte(written("timeout: 0s", "fault: latency, target: node/2, params: {delay: -5ms}", "0s", "0s", "  summary: 7\n  minNodes: 9\n")))
	if err == nil {
		t.Fatal("taken")
	}
	var lines []int
	for text := range strings.Lines(err.Error()) {
		var line int
		if _, err := fmt.Sscanf(text, "x.yaml:%d:", &line); err != nil {
			t.Fatalf("%q has no line", text)
		}
		lines = append(lines, line)
	}
	if len(lines) < 4 || !slices.IsSorted(lines) {
		t.Errorf("lines %v of:\n%v", lines, err)
	}
}

// Fits reports errors that depend on the cluster.
func TestFits(t *testing.T) {
	three := []fault.Place{{Name: "node-1", Zone: "a"}, {Name: "node-2", Zone: "b"}, {Name: "node-3", Zone: "c"}}
	for inject, want := range map[string]string{
		"fault: kill, target: etcd/king":                                   `x.yaml:7: spec.timeline[0].inject.target: target etcd/king: no control-plane node is called "king"`,
		"fault: kill, target: etcd/4":                                      "the cluster has 3 control-plane nodes",
		"fault: power-off, target: zone/x":                                 `in zone "x"`,
		"fault: split, target: node/1, params: {shape: 9-9}":               "add up to the number of nodes, 3",
		"fault: kill, target: etcd/node-2":                                 "",
		"fault: power-off, target: zone/b":                                 "",
		"fault: split, target: node/leader, params: {shape: 1-2}":          "",
		"fault: kill, target: apiserver/kcm/active":                        "",
		"fault: isolate, target: node/kcm/active, params: {keep: harness}": "",
	} {
		s, err := Parse("x.yaml", []byte(written("", inject, "8s", "2s", "")))
		if err != nil {
			t.Errorf("%s: %v", inject, err)
			continue
		}
		err = s.Fits(three)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", inject, err, want)
		}
	}
	s, err := Parse("x.yaml", []byte(`apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: x}
spec:
  timeline:
  - action: {name: remove-node, node: node-99}
  requirements: [{id: MY-001, judge: etcd-membership}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fits(three); err == nil || !strings.Contains(err.Error(), `x.yaml:6: spec.timeline[0].action.node: `) {
		t.Errorf("a node that is not there is removed: %v", err)
	}
	for _, s := range All() {
		if s.Spec.MinNodes <= 3 {
			if err := s.Fits(three); err != nil {
				t.Errorf("%s: %v", s.Metadata.Name, err)
			}
		}
	}
}
