package upgrading

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestAPIServer(t *testing.T) {
	runs := func(server, others string) map[framework.Component]string {
		return map[framework.Component]string{framework.APIServer: server, framework.ControllerManager: others, framework.Scheduler: others}
	}
	for _, test := range []struct {
		to   string
		a, b map[framework.Component]string
		says string
	}{
		{"v1.37.1", runs("v1.36.3", "v1.36.3"), runs("v1.37.1", "v1.37.1"), ""},
		{"v1.36.3", runs("v1.37.1", "v1.37.1"), runs("v1.36.3", "v1.36.3"), ""},
		{"v1.37.1", runs("v1.36.3", "v1.36.3"), runs("v1.35.8", "v1.35.8"), "that of b is v1.35.8: upgrade all control-plane nodes to v1.36 first"},
		{"v1.35.8", runs("v1.36.3", "v1.36.3"), runs("v1.37.1", "v1.37.1"), "that of b is v1.37.1: downgrade all control-plane nodes to v1.36 first"},
		// The previous upgrade was interrupted after the API server of b.
		{"v1.37.1", runs("v1.36.3", "v1.36.3"), runs("v1.36.3", "v1.35.8"), "that of b is v1.35.8: complete the upgrade of that node to v1.36 first"},
		{"v1.36.3", runs("v1.36.3", "v1.36.3"), runs("v1.36.3", "v1.35.8"), ""},
		{"v1.35.8", runs("v1.36.3", "v1.36.3"), runs("v1.36.3", "v1.35.8"), ""},
		// A component is down, and its version unknown.
		{"v1.37.1", runs("v1.36.3", ""), runs("v1.37.1", "v1.37.1"), ""},
	} {
		err := APIServer(test.to, map[string]map[framework.Component]string{"a": test.a, "b": test.b})
		if (err == nil) != (test.says == "") || err != nil && !strings.HasSuffix(err.Error(), test.says) {
			t.Errorf("to %s beside %v and %v: %v", test.to, test.a, test.b, err)
		}
	}
}

func TestUndisturbed(t *testing.T) {
	for want, p := range map[string]framework.Process{
		"held down":               {Component: framework.Etcd, Held: true},
		"killed after each start": {Component: framework.Etcd, CrashLooped: true},
		"frozen":                  {Component: framework.Etcd, State: "T"},
	} {
		if err := Undisturbed([]framework.Process{{State: "S"}, p}); err == nil || !strings.Contains(err.Error(), "its etcd is "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Undisturbed([]framework.Process{{State: "S"}, {State: "R"}}); err != nil {
		t.Error(err)
	}
}
