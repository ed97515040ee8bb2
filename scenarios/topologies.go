package scenarios

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

//go:embed topologies.yaml
var topologiesFile []byte

var topologies = sync.OnceValue(func() map[string]Topology {
	return embedded[map[string]Topology](topologiesFile)
})

// Topologies returns the clusters that scenarios can ask for by name. Callers must not modify
// them.
func Topologies() map[string]Topology { return topologies() }

// String describes the topology in one line.
func (t Topology) String() string {
	var words []string
	add := func(what, value string) {
		if value != "" {
			words = append(words, what+" "+value)
		}
	}
	add("topology", t.Name)
	add("balancer", t.LoadBalancer)
	add("etcd balancer", t.EtcdBalancer)
	add("disk", t.Disk)
	add("Kubernetes", t.Kubernetes)
	add("etcd", t.Etcd)
	if t.RegisterNodes {
		add("control-plane nodes", "registered")
	}
	for _, component := range slices.Sorted(maps.Keys(t.Election)) {
		add(component+" elected by", t.Election[component])
	}
	for _, component := range slices.Sorted(maps.Keys(t.ExtraArgs)) {
		for _, flag := range slices.Sorted(maps.Keys(t.ExtraArgs[component])) {
			add(component, "--"+flag+"="+t.ExtraArgs[component][flag])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Sysctls)) {
		add("sysctl", name+"="+t.Sysctls[name])
	}
	return strings.Join(words, ", ")
}

// expand fills a named topology with the settings of that name.
func (t *Topology) expand() error {
	if t.Name == "" && len(t.Needs) > 0 {
		return errors.New("needs: it is for named topologies only")
	}
	if t.Name == "" {
		return nil
	}
	if !t.AsTheRun() {
		return errors.New("a named topology allows no other settings, except own and needs")
	}
	named, ok := Topologies()[t.Name]
	if !ok {
		return fmt.Errorf("topology: %q is not one of %s", t.Name, strings.Join(slices.Sorted(maps.Keys(Topologies())), ", "))
	}
	settings := named.settings()
	for _, name := range t.Needs {
		if setting, ok := settings[name]; !ok {
			return fmt.Errorf("needs: %q: want some of %s", name, strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
		} else if reflect.ValueOf(setting).Elem().IsZero() {
			return fmt.Errorf("needs: topology %s does not set %s", t.Name, name)
		}
	}
	named.Name, named.Own, named.Needs = t.Name, t.Own, t.Needs
	*t = named
	return nil
}
