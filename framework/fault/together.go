package fault

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-ha/holdfast/framework"
)

// share is the part of a fault on one node.
type share struct {
	node framework.Node
	attempt
}

// onNodes injects a fault into whole nodes, at the same moment and as one: it is proven when it
// is on all of them, and healing heals all. Nodes that are off cannot be hit, and belong to
// another fault, like those that are already in the faulted state: they are left alone.
func onNodes(ctx context.Context, t Target, shares []share) (Injection, error) {
	var parts []attempt
	var off []string
	for _, s := range shares {
		if s.already != "" {
			off = append(off, s.already)
			continue
		}
		if power, ok := s.node.(framework.PowerSwitch); ok {
			on, err := power.Powered(ctx)
			if err != nil {
				return nil, fmt.Errorf("failed to ask whether node %s is powered before the fault: %w", s.node.Name(), err)
			}
			if !on {
				off = append(off, fmt.Sprintf("node %s was already powered off", s.node.Name()))
				continue
			}
		}
		parts = append(parts, s.attempt)
	}
	if len(parts) == 0 {
		return notInjected(t, "%s", strings.Join(off, "; ")), nil
	}
	i, err := together(t, parts).inject(ctx)
	if err != nil {
		return nil, err
	}
	i.proof.What = strings.Join(append([]string{i.proof.What}, off...), "; ")
	return i, nil
}

// together combines several attempts into one, each step of which runs in all of them in
// parallel.
func together(t Target, parts []attempt) attempt {
	a := attempt{target: t, single: len(parts) == 1 && parts[0].single}
	var what []string
	var effects, lasts, healed []look
	var asks, undos []func(context.Context) error
	for _, p := range parts {
		what = append(what, p.what)
		effects, healed = append(effects, p.effect), append(healed, p.healed)
		if p.lasts != nil {
			lasts = append(lasts, p.lasts)
		}
		asks, undos = append(asks, p.ask), append(undos, p.undo)
		a.ttl, a.patience = max(a.ttl, p.ttl), max(a.patience, p.patience)
	}
	a.what = strings.Join(what, ", ")
	a.ask, a.undo = atOnce(asks), atOnce(undos)
	a.effect, a.lasts, a.healed = allAtOnce(effects), allAtOnce(lasts), allAtOnce(healed)
	return a
}

// atOnce runs several functions in parallel, and all of them even if one fails.
func atOnce(all []func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return framework.Each(all, func(f func(context.Context) error) error { return f(ctx) })
	}
}

// allAtOnce checks whether several looks hold, in parallel.
func allAtOnce(looks []look) look {
	return func(ctx context.Context) (bool, string) {
		held, seen := make([]bool, len(looks)), make([]string, len(looks))
		var wg sync.WaitGroup
		for i, l := range looks {
			wg.Go(func() { held[i], seen[i] = l(ctx) })
		}
		wg.Wait()
		var lacking []string
		for i := range looks {
			if !held[i] {
				lacking = append(lacking, seen[i])
			}
		}
		if len(lacking) > 0 {
			return false, strings.Join(lacking, "; ")
		}
		return true, strings.Join(seen, "; ")
	}
}
