package fault

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// diskRefusals puts bad targets and parameters to a fault of the disk.
func diskRefusals(t *testing.T, f *Fault, bad map[string]string) {
	t.Helper()
	c := newFake(framework.Etcd, framework.APIServer)
	for target, want := range map[string]Target{
		"accepts etcd":           component("node-1", framework.APIServer),
		"accepts etcd,":          wholeTarget("node-1"),
		"node-1, node-2, node-3": component("node-9", framework.Etcd),
	} {
		if err := f.Check(c, want, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), target) {
			t.Errorf("%s: %v", want.Asked, err)
		}
	}
	var missing *MissingAbility
	ability := "DiskFaulter"
	if f == DiskWipe {
		ability = "DiskWiper"
	}
	if err := f.Check(bareCluster{c}, component("node-1", framework.Etcd), Params{TTL: ttl}); !errors.As(err, &missing) || missing.Ability != ability {
		t.Errorf("without a disk that can fail: %v", err)
	}
	for given, want := range bad {
		values := map[string]string{}
		for pair := range strings.FieldsSeq(given) {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		if err := f.Check(c, component("node-1", framework.Etcd), Params{TTL: ttl, Values: values}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
	if c.asked != 0 {
		t.Errorf("asked %d times", c.asked)
	}
}

// TestDisksOverlap heals faults of one disk in any order: each is proven, though
// the others continue.
func TestDisksOverlap(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		synctest.Test(t, func(t *testing.T) {
			c := newFake(framework.Etcd)
			time.Sleep(time.Minute)
			target := component("node-2", framework.Etcd)
			var all []Injection
			for _, f := range []*Fault{DiskLie, DiskSlow, DiskSlow} {
				i, err := f.Inject(t.Context(), c, target, Params{TTL: ttl})
				if err != nil || !i.Proof().Proven {
					t.Fatalf("%s: %v, %v", f.Name, i, err)
				}
				all = append(all, i)
			}
			for _, i := range order {
				if healed, err := all[i].Heal(t.Context()); err != nil || !healed.Proven {
					t.Errorf("order %v: %+v, %v", order, healed, err)
				}
			}
			if badDiskNow(c) {
				t.Errorf("order %v leaves a bad disk", order)
			}
		})
	}
}

// TestDiskMemberDown: a disk is not healed before its member runs again.
func TestDiskMemberDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.Etcd)
		time.Sleep(time.Minute)
		i, err := DiskError.Inject(t.Context(), c, component("node-2", framework.Etcd), Params{TTL: ttl})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		noEtcd(c)
		if healed, err := i.Heal(t.Context()); err != nil || healed.Proven {
			t.Errorf("healed while the member is down: %+v, %v", healed, err)
		}
		c.nodes[1].spawn(framework.Etcd)
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("healed: %+v, %v", healed, err)
		}
	})
}

// A disk that fails or delays fewer operations than requested proves nothing, even if a probe was
// among them.
func TestWeakDisk(t *testing.T) {
	all := framework.DiskFault{Op: framework.DiskFsync, Error: "EIO", Share: 1}
	some := framework.DiskFault{Op: framework.DiskFsync, Error: "EIO", Share: 0.5}
	slow := framework.DiskFault{Op: framework.DiskFsync, Delay: time.Second}
	failed := framework.DiskProbe{Sync: framework.DiskStep{Done: true, Error: "EIO"}}
	delayed := framework.DiskProbe{Sync: framework.DiskStep{Done: true, Took: time.Second}}
	for _, tc := range []struct {
		name  string
		shows evidence
		probe framework.DiskProbe
		count framework.DiskCounters
		want  bool
	}{
		{"all failed", failing(all), failed, framework.DiskCounters{Matched: 100, Failed: 100}, true},
		{"one of all failed", failing(all), failed, framework.DiskCounters{Matched: 100, Failed: 1}, false},
		{"half failed", failing(some), failed, framework.DiskCounters{Matched: 100, Failed: 45}, true},
		{"one of half failed", failing(some), failed, framework.DiskCounters{Matched: 100, Failed: 1}, false},
		{"all failed instead of half", failing(some), failed, framework.DiskCounters{Matched: 100, Failed: 100}, false},
		{"the probe did not fail", failing(some), delayed, framework.DiskCounters{Matched: 100, Failed: 45}, false},
		{"all delayed", slowed(slow), delayed, framework.DiskCounters{Matched: 100, Delayed: 100}, true},
		{"one delayed", slowed(slow), delayed, framework.DiskCounters{Matched: 100, Delayed: 1}, false},
		{"the probe was not delayed", slowed(slow), failed, framework.DiskCounters{Matched: 100, Delayed: 100}, false},
	} {
		if got, seen := tc.shows(tc.probe, tc.count); got != tc.want {
			t.Errorf("%s: %v, %s", tc.name, got, seen)
		}
	}
}
