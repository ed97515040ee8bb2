package run

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/redact"
)

// Redacted returns the plan as it may be published: without secrets in its command and in the
// arguments of components, and without the access to a cluster that holdfast did not create.
func (p *Plan) Redacted(of *redact.Redactor) *Plan {
	r := redactor{of}
	kept := *p
	kept.Command = r.command(p.Command)
	if kept.Problem != "" {
		kept.Problem = r.Text(p.Problem)
	}
	kept.Cluster = r.cluster(p.Cluster)
	kept.Parts = make([]Part, len(p.Parts))
	for i, part := range p.Parts {
		part.Cluster, part.Problem = r.cluster(part.Cluster), r.Text(part.Problem)
		kept.Parts[i] = part
	}
	return &kept
}

// Redacted returns the verdicts with the plan as it may be published. The records have no secrets:
// their writer removes them.
func (v *Verdicts) Redacted() *Verdicts {
	kept := *v
	kept.Plan = v.Plan.Redacted(redact.New())
	return &kept
}

type redactor struct{ *redact.Redactor }

// cluster returns a cluster without secrets in arguments. For a cluster that holdfast did not
// create it omits the kubeconfig and the access to its nodes.
func (r redactor) cluster(c *clusters.Cluster) *clusters.Cluster {
	kept := *c
	kept.Spec.ExtraArgs = r.arguments(c.Spec.ExtraArgs)
	kept.Spec.Nodes = slices.Clone(c.Spec.Nodes)
	for n := range kept.Spec.Nodes {
		kept.Spec.Nodes[n].ExtraArgs = r.arguments(c.Spec.Nodes[n].ExtraArgs)
	}
	if c.Spec.Inventory != nil {
		i := *c.Spec.Inventory
		i.Spec.Kubeconfig, i.Spec.Context, i.Spec.SSH, i.Spec.PowerFile, i.Spec.Nodes = "", "", nil, "", slices.Clone(i.Spec.Nodes)
		for n := range i.Spec.Nodes {
			i.Spec.Nodes[n].SSH, i.Spec.Nodes[n].Power = "", nil
		}
		i.Spec.LoadBalancer.Server = r.Text(i.Spec.LoadBalancer.Server)
		kept.Spec.Inventory = &i
	}
	return &kept
}

// arguments redacts the values of flags by name.
func (r redactor) arguments(all clusters.ExtraArgs) clusters.ExtraArgs {
	kept := clusters.ExtraArgs{}
	for component, flags := range all {
		kept[component] = map[string]string{}
		for flag, value := range flags {
			if redact.Secret(flag) {
				value = redact.Mark
			}
			kept[component][flag] = r.Text(value)
		}
	}
	return kept
}

// command redacts a command line: a flag's value may be a separate argument, and may have spaces.
func (r redactor) command(args []string) []string {
	kept := slices.Clone(args)
	for i, arg := range kept {
		name, _, assigned := strings.Cut(arg, "=")
		switch {
		case assigned && redact.Secret(name):
			kept[i] = name + "=" + redact.Mark
		case i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && redact.Secret(args[i-1]):
			kept[i] = redact.Mark
		default:
			kept[i] = r.Text(arg)
		}
	}
	return kept
}
