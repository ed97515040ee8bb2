package local

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// TestFaults injects every fault except those of disks into one cluster, group by group. Each group
// leaves the cluster as it found it.
func TestFaults(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) {
		s.Spec.Workers = 1
		s.Spec.ExtraArgs = clusters.ExtraArgs{framework.Etcd: {"quota-backend-bytes": "67108864"}}
		for i, zone := range []string{"a", "b", "b"} {
			s.Spec.Nodes[i].Zone = zone
		}
	})
	for _, group := range []struct {
		name string
		test func(*testing.T, *Cluster)
	}{
		// First, since a component that is killed again and again is restarted with a delay.
		{"one process", testOneProcess},
		{"processes", testProcesses},
		{"power and links", testPowerAndLinks},
		{"network", testNetwork},
		{"limits", testLimits},
		{"certificates", testCertificates},
		{"clocks", testClocks},
		{"administration", testAdministration},
	} {
		ok := t.Run(group.name, func(t *testing.T) {
			group.test(t, c)
			unscathed(t, c)
		})
		if !ok {
			return
		}
	}
}

// faultCase is a fault with its target and its parameters as on a command line.
type faultCase struct {
	fault          *fault.Fault
	target, params string
}

func (f faultCase) String() string {
	return strings.TrimSpace(f.fault.Name + " " + f.target + " " + f.params)
}

func (f faultCase) values() map[string]string {
	all := map[string]string{}
	for _, param := range strings.Fields(f.params) {
		name, value, _ := strings.Cut(param, "=")
		all[name] = value
	}
	return all
}

// healEach injects each of the faults and heals it, and wants the proofs of both. Then it checks.
func healEach(t *testing.T, c *Cluster, all []faultCase, check ...func(*testing.T, *Cluster)) {
	t.Helper()
	for _, f := range all {
		t.Run(f.String(), func(t *testing.T) {
			heal(t, f.inject(t, c, longTTL))
			for _, is := range check {
				is(t, c)
			}
		})
	}
}

// longTTL is the time to live of faults that the tests heal.
const longTTL = time.Hour

// inject injects a fault, and wants its proof.
func inject(t *testing.T, c *Cluster, f *fault.Fault, target string, ttl time.Duration, params string) fault.Injection {
	t.Helper()
	return faultCase{f, target, params}.inject(t, c, ttl)
}

func (f faultCase) inject(t *testing.T, c *Cluster, ttl time.Duration) fault.Injection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	on, err := fault.Resolve(ctx, c, f.target)
	if err != nil {
		t.Fatal(err)
	}
	p := fault.Params{TTL: ttl, Values: f.values()}
	if err := f.fault.Check(c, on, p); err != nil {
		t.Fatal(err)
	}
	i, err := f.fault.Inject(ctx, c, on, p)
	if err != nil {
		t.Fatal(err)
	}
	proof := i.Proof()
	t.Logf("%s of %s after %s: %s", f.fault.Name, on, proof.Effect.Sub(proof.Called).Round(10*time.Microsecond), proof.What)
	if !proof.Proven {
		t.Fatalf("%s has no proof of its effect", f.fault.Name)
	}
	return i
}

// heal heals injections in order, and wants their proofs.
func heal(t *testing.T, all ...fault.Injection) {
	t.Helper()
	for _, i := range all {
		proof, err := i.Heal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("healed after %s: %s", proof.Effect.Sub(proof.Called).Round(10*time.Microsecond), proof.What)
		if !proof.Proven {
			t.Fatal("it has no proof of healing")
		}
	}
}
