package fault

import (
	"strings"
	"testing"
)

// Every example of a fault can be written for any cluster, and for one of three nodes.
func TestCheckWrittenExamples(t *testing.T) {
	for _, f := range All() {
		target, rest, _ := strings.Cut(f.Example, " ")
		values := map[string]string{}
		for _, word := range strings.Fields(rest) {
			name, value, _ := strings.Cut(word, "=")
			values[name] = value
		}
		for _, nodes := range [][]Place{nil, {{"node-1", "a"}, {"node-2", "b"}, {"node-3", "c"}}} {
			if err := CheckWritten(f, target, values, nodes); err != nil {
				t.Errorf("%s on %s: %v", f.Name, target, err)
			}
		}
	}
}

func TestCheckWritten(t *testing.T) {
	three := []Place{{"node-1", "a"}, {"node-2", "b"}, {"node-3", "c"}}
	for _, tt := range []struct {
		fault, target, params string
		nodes                 []Place
		want                  string // in the error; empty for none
	}{
		{"latency", "node/2", "delay=-5ms", nil, "delay"},
		{"latency", "node/2", "delay=99999999999999999999ms", nil, "delay"},
		{"latency", "node/2", "delay=5ms", nil, ""},
		{"cut", "node/2", "port=99999", nil, "1 to 65535"},
		{"cut", "node/2", "port=443", nil, ""},
		{"disk-slow", "apiserver/2", "", nil, "the fault accepts etcd"},
		{"disk-slow", "etcd/2", "delay=1ms", nil, ""},
		{"split", "node/1", "shape=9-9", three, "add up to the number of nodes, 3"},
		{"split", "node/1", "shape=1-4", nil, ""}, // of a cluster of five
		{"split", "node/1", "shape=1-2", three, ""},
		{"isolate", "etcd/1", "", nil, "the fault accepts node, zone"},
		{"isolate", "node/1", "keep=balancer", three, ""},
		{"isolate", "node/1", "keep=moon", three, "keep"},
		{"kill", "node/1", "", nil, "the fault accepts component"},
		{"kill", "etcd/leader", "restart=perhaps", nil, "true or false"},
		{"lease-steal", "etcd/1", "", nil, "lease"},
		{"compact", "etcd/leader", "keep=-1", nil, "keep"},
		{"webhook-hang", "apiserver/any", "timeout=1500ms", nil, "whole seconds"},
	} {
		f, err := Find(tt.fault)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		if name, value, ok := strings.Cut(tt.params, "="); ok {
			values[name] = value
		}
		err = CheckWritten(f, tt.target, values, tt.nodes)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s on %s %s: %v, want an error with %q", tt.fault, tt.target, tt.params, err, tt.want)
		}
	}
}

// Whatever is written is checked without a panic.
func FuzzCheckWritten(f *testing.F) {
	for _, seed := range [][3]string{
		{"latency", "node/2", "delay=-5ms"}, {"latency", "node/2", "delay=99999999999999999999ms"}, {"cut", "etcd/king", "port=99999"},
		{"split", "node/1", "shape=9-9"}, {"disk-slow", "apiserver/2", "delay=0s"}, {"kill", "etcd/9", ""}, {"restart", "node/node-99", ""},
		{"isolate", "zone/b", "keep=harness,balancer"}, {"split", "nodes", "groups=1+2,3"}, {"overload", "apiserver/kcm/active", "rate=NaN"},
		{"loss", "balancer", "share=NaN%"}, {"bandwidth", "workers", "rate=1e99"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	three := []Place{{"node-1", "a"}, {"node-2", "b"}, {"node-3", "c"}}
	f.Fuzz(func(t *testing.T, name, target, param string) {
		known, err := Find(name)
		if err != nil {
			return
		}
		values := map[string]string{}
		if name, value, ok := strings.Cut(param, "="); ok {
			values[name] = value
		}
		_ = CheckWritten(known, target, values, nil)
		_ = CheckWritten(known, target, values, three)
	})
}
