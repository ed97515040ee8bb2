package main

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
)

const onlyKind = "only the kind provider needs one"

// checkEngine checks the Docker engine that the kind provider would use, and runs a privileged
// container on it. Nothing here is required: the local provider needs no engine.
func checkEngine(ctx context.Context) []check {
	c := check{Name: "Docker engine"}
	problems := engine.Problems()
	blocking := engine.Blocking(problems)
	var checks []check
	e, err := engine.Find(ctx)
	switch {
	case err == nil:
		checks = append(checks, c.ok("%s", e), checkPrivileged(ctx, e, len(blocking) == 0))
		if err := e.Reachable(); err != nil {
			checks[0] = c.fallback(e.String(), err.Error())
		}
	case !errors.Is(err, engine.ErrNone):
		checks = append(checks, c.missing(firstLine(err.Error()), onlyKind))
	case len(blocking) > 0:
		checks = append(checks, c.missing(firstLine(err.Error()), onlyKind+"; to let holdfast start one: "+engine.Advice(blocking)))
	default:
		checks = append(checks, c.fallback(firstLine(err.Error()), onlyKind+"; it starts one in a sandbox automatically; to start one now: holdfast kind engine"))
	}
	for _, p := range problems {
		if !p.Blocks {
			checks = append(checks, lacking(p))
		}
	}
	return checks
}

// lacking returns the check for something that the kind provider does not always need.
func lacking(p engine.Problem) check {
	name, about, _ := strings.Cut(engine.Missing([]engine.Problem{p}), " of at least ")
	if about != "" { // a kernel limit
		return check{Name: name}.fallback("lower than "+about, "only the kind provider needs it; "+p.Advice)
	}
	return check{Name: name}.fallback("not found", "only the kind provider needs it, to build the node image where no image registry can be reached; "+p.Advice)
}

// checkPrivileged runs a privileged container on an engine.
func checkPrivileged(ctx context.Context, e engine.Engine, startable bool) check {
	c := check{Name: "privileged containers"}
	err := engine.CheckPrivileged(ctx, e)
	var refused *engine.PrivilegedError
	switch {
	case err == nil:
		return c.ok("the Docker engine ran one")
	case !errors.As(err, &refused):
		return c.missing(firstLine(err.Error()), onlyKind)
	case startable && e.Source == engine.SourceContext:
		return c.fallback(firstLine(refused.Output), refused.Advice+"; the kind provider does that automatically")
	}
	return c.missing(firstLine(refused.Output), refused.Advice)
}
