package upgrading

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestAPIServers(t *testing.T) {
	for _, test := range []struct {
		to    string
		nodes map[string]string
		says  string
	}{
		{"v1.37.1", map[string]string{"a": "v1.36.3", "b": "v1.37.1"}, ""},
		{"v1.36.3", map[string]string{"a": "v1.37.1", "b": "v1.36.3"}, ""},
		{"v1.37.1", map[string]string{"a": "v1.36.3", "b": "v1.35.8"}, "that of b is v1.35.8: upgrade all control-plane nodes to v1.36 first"},
		{"v1.35.8", map[string]string{"a": "v1.36.3", "b": "v1.37.1"}, "that of b is v1.37.1: downgrade all control-plane nodes to v1.36 first"},
	} {
		err := APIServers(test.to, test.nodes)
		if (err == nil) != (test.says == "") || err != nil && !strings.HasSuffix(err.Error(), test.says) {
			t.Errorf("to %s beside %v: %v", test.to, test.nodes, err)
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
