package clusters

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// Load reads a cluster file; - means standard input. Errors contain file, line, and the allowed
// values.
func Load(path string) (*Cluster, error) {
	name, data, err := yamlfile.Load(path, "cluster")
	if err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// Parse reads a cluster file from memory; errors call it name. Omitted fields have the values
// of Default. The returned cluster is valid.
func Parse(name string, data []byte) (*Cluster, error) {
	c := Default()
	where, err := parse(name, "a "+Kind, data, c, map[string]yamlfile.Rule{"": {Required: []string{"apiVersion", "kind"}}})
	if err != nil {
		return nil, err
	}
	c.Spec.KubernetesVersion, c.Spec.EtcdVersion = Version(c.Spec.KubernetesVersion), Version(c.Spec.EtcdVersion)
	for i := range c.Spec.Nodes {
		n := &c.Spec.Nodes[i]
		n.KubernetesVersion, n.EtcdVersion = Version(n.KubernetesVersion), Version(n.EtcdVersion)
	}
	if problems := c.problems(where); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

// parse reads a file of a kind, and returns the positions of its fields.
func parse(name, kind string, data []byte, into any, rules map[string]yamlfile.Rule) (where func(path string) string, err error) {
	file, err := yamlfile.Decode(name, data, into, yamlfile.Format{Want: kind + " of " + APIVersion, Rules: rules, Special: special})
	if err != nil {
		return nil, err
	}
	return file.Where, nil
}

// special sets the defaults of some types, and reads nodes.
func special(d *yamlfile.Decoder, node *yaml.Node, path string, into any) (done bool) {
	switch into := into.(type) {
	case *HealthCheck:
		if *into == (HealthCheck{}) {
			*into = Default().Spec.LoadBalancer.HealthCheck
		}
	case *framework.Election:
		*into = framework.Election{LeaseDuration: defaultLeaseDuration, RenewDeadline: defaultRenewDeadline, RetryPeriod: defaultRetryPeriod}
		return node.ShortTag() == "!!null"
	case *[]NodeSpec:
		// A number, or a list of overrides.
		switch node.Kind {
		case yaml.SequenceNode:
			return false
		case yaml.ScalarNode:
			n := 0
			d.Decode(node, path, &n)
			// Other numbers are reported by Validate; here they only must not do harm.
			*into = make([]NodeSpec, min(max(n, 0), MaxNodes+1))
		default:
			d.Unwanted(node, path, "1, 3, 5 or 7, or a list of nodes")
		}
		return true
	}
	return false
}
