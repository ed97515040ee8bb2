package remote

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestConsent(t *testing.T) {
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	given := Consent{ClusterUID: "a", Expires: now.Add(time.Hour), Levels: []Level{Processes, Network}}
	manifest, err := given.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var object corev1.ConfigMap
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(object)
	c, err := parseConsent(body)
	if err != nil || c.ClusterUID != "a" || !c.Expires.Equal(given.Expires) || !slices.Equal(c.Levels, given.Levels) {
		t.Fatalf("%+v, error %v", c, err)
	}
	if !c.allows(ReadOnly) || !c.allows(Network) || c.allows(Data) {
		t.Errorf("it allows %v", c.Levels)
	}
	for _, tc := range []struct {
		name, uid string
		at        time.Time
		want      string
	}{
		{"it counts", "a", now, ""},
		{"of another cluster", "b", now, "the consent is for the cluster with UID a, and this one has b"},
		{"expired", "a", now.Add(time.Hour), "the consent expired at"},
	} {
		err := c.check(tc.uid, tc.at)
		if (tc.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrNoConsent) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	for _, data := range []map[string]string{{}, {consentExpires: "tomorrow"}, {consentExpires: "2026-11-25T00:00:00Z", consentLevels: "all"}} {
		body, _ := json.Marshal(corev1.ConfigMap{Data: data})
		if _, err := parseConsent(body); err == nil {
			t.Errorf("%v is a consent", data)
		}
	}
}

// TestMayAllow: what a fault does decides on the level that it needs.
func TestMayAllow(t *testing.T) {
	for effect, level := range map[record.Effect]Level{record.EffectDown: Processes, record.EffectLease: Data, record.EffectNetwork: Network, record.EffectPower: Power} {
		for _, given := range []Level{Processes, Network, Power, Data} {
			c := Consent{Levels: []Level{Processes, given}}
			if got := c.mayAllow([]record.Effect{effect}); got != (level == Processes || level == given) {
				t.Errorf("consent to %v allows %s: %t", c.Levels, effect, got)
			}
		}
	}
}

// TestPermits: what the owner has not consented to changes nothing.
func TestPermits(t *testing.T) {
	c := &Cluster{Observed: &Observed{spec: clusters.Default()}, consent: Consent{Expires: time.Now().Add(time.Hour), Levels: []Level{Processes}}}
	if err := c.permits(Processes, "kill"); err != nil {
		t.Error(err)
	}
	for _, l := range []Level{Network, Data} {
		if err := c.permits(l, "do that"); !errors.Is(err, ErrNoConsent) || !errors.Is(err, framework.ErrNothingDone) || !errors.As(err, new(*fault.MissingAbility)) {
			t.Errorf("%s: %v", l, err)
		}
	}
	c.consent.Expires = time.Now()
	if err := c.permits(Processes, "kill"); !errors.Is(err, ErrNoConsent) {
		t.Errorf("expired: %v", err)
	}
}

// TestBroken: of five nodes two may be broken at a time, and of three members one.
func TestBroken(t *testing.T) {
	b := broken{groups: groupsOf([]string{"a", "b", "c", "d", "e"}, nil)}
	for _, tc := range []struct {
		key   string
		nodes []string
		ttl   time.Duration
		ok    bool
	}{
		{"1", []string{"a"}, time.Hour, true},
		{"2", []string{"a", "b"}, time.Hour, true},
		{"3", []string{"c"}, time.Hour, false},
		{"4", nil, time.Hour, true}, // a scheduler, for one
	} {
		if err := b.add("x", tc.key, tc.nodes, tc.ttl, false); (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrNoConsent) {
			t.Errorf("%s: %v", tc.key, err)
		}
	}
	if err := b.add("x", "3", []string{"c", "d", "e"}, time.Nanosecond, true); err != nil {
		t.Errorf("with consent to any number: %v", err)
	}
	time.Sleep(time.Millisecond) // its time is over
	b.rename("2", "two")
	b.mend("two")
	if err := b.add("x", "3", []string{"c"}, time.Hour, false); err != nil {
		t.Errorf("once one is mended: %v", err)
	}
	fewer := broken{groups: groupsOf([]string{"a", "b", "c", "d", "e"}, []string{"a", "b", "c"})}
	if err := fewer.add("x", "1", []string{"d", "e"}, time.Hour, false); err != nil {
		t.Errorf("two nodes without members: %v", err)
	}
	fewer.mend("1")
	if err := fewer.add("x", "2", []string{"a", "b"}, time.Hour, false); !errors.Is(err, ErrNoConsent) || !strings.Contains(err.Error(), "a cluster of 3 tolerates the loss of 1") {
		t.Errorf("two of three members: %v", err)
	}
}

func TestCutOff(t *testing.T) {
	nodes := []string{"a", "b", "c"}
	cut := framework.Impairment{Cut: true}
	both := func(pairs ...string) (links []framework.Link) {
		for _, p := range pairs {
			from, to, _ := strings.Cut(p, "-")
			links = append(links, framework.Link{From: from, To: to}, framework.Link{From: to, To: from})
		}
		return links
	}
	for _, tc := range []struct {
		links []framework.Link
		imp   framework.Impairment
		want  []string
	}{
		{both("a-b", "a-c", "a-harness"), cut, []string{"a"}},
		{both("a-b", "b-c", "a-c"), cut, []string{"a", "b"}},
		{both("a-balancer", "b-workers"), cut, nil},
		{both("a-b", "a-c"), framework.Impairment{Loss: 1}, []string{"a"}},
		{both("a-b", "a-c"), framework.Impairment{Loss: 0.1, Corrupt: 0.01, Duplicate: 1, Reorder: 1}, nil},
		{both("a-b", "a-c"), framework.Impairment{Corrupt: 1}, []string{"a"}},
		{both("a-b", "a-c"), framework.Impairment{Delay: 50 * time.Millisecond, Jitter: 10 * time.Millisecond, Rate: 10e6}, nil},
		{both("a-b", "a-c"), framework.Impairment{Delay: time.Second}, []string{"a"}},
		{both("a-b", "a-c"), framework.Impairment{Delay: 10 * time.Millisecond, Jitter: time.Second}, []string{"a"}},
		{both("a-b", "a-c"), framework.Impairment{Rate: 1000}, []string{"a"}},
	} {
		if got := cutOff(tc.links, tc.imp, nodes); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.links, got, tc.want)
		}
	}
}
