package local

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// inject injects a fault and wants its proof.
func inject(t *testing.T, c *Cluster, f *fault.Fault, target string, p fault.Params) fault.Injection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	on, err := fault.Resolve(ctx, c, target)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(c, on, p); err != nil {
		t.Fatal(err)
	}
	i, err := f.Inject(ctx, c, on, p)
	if err != nil {
		t.Fatal(err)
	}
	proof := i.Proof()
	t.Logf("%s of %s after %s: %s", f.Name, on, proof.Effect.Sub(proof.Called).Round(10*time.Microsecond), proof.What)
	if !proof.Proven {
		t.Fatalf("%s has no proof of its effect", f.Name)
	}
	return i
}

// injectFor injects a fault with parameters as on a command line.
func injectFor(t *testing.T, c *Cluster, f *fault.Fault, target string, ttl time.Duration, params ...string) fault.Injection {
	t.Helper()
	p := fault.Params{TTL: ttl, Values: map[string]string{}}
	for _, param := range params {
		name, value, _ := strings.Cut(param, "=")
		p.Values[name] = value
	}
	return inject(t, c, f, target, p)
}

// heal heals an injection and wants its proof.
func heal(t *testing.T, i fault.Injection) {
	t.Helper()
	proof, err := i.Heal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("healed after %s: %s", proof.Effect.Sub(proof.Called).Round(10*time.Microsecond), proof.What)
	if !proof.Proven {
		t.Fatal("it has no proof of healing")
	}
}
