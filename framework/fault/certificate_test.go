package fault

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func testBadCertificate(t *testing.T, f *Fault, defect framework.CertificateDefect) {
	target := component("node-2", framework.APIServer)
	p := proofs{
		fault: f, target: target,
		broken: func(c *fakeCluster) bool { return c.nodes[1].trust.defects[framework.APIServer] != "" },
		already: func(c *fakeCluster) {
			p := c.nodes[1].processes[framework.APIServer]
			p.PID, p.State = 0, ""
		},
	}
	p.run(t)
	p.already = func(c *fakeCluster) {
		c.nodes[1].trust.defects = map[framework.Component]framework.CertificateDefect{framework.APIServer: framework.CertificateUntrusted}
	}
	inBubble(t, "spoilt already", p.alreadySo)
	for _, other := range []framework.CertificateDefect{framework.CertificateExpired, framework.CertificateWrongNames, framework.CertificateUntrusted} {
		if other == defect {
			continue
		}
		inBubble(t, "another defect, "+string(other)+", is no proof", func(t *testing.T, c *fakeCluster) {
			c.nodes[1].trust.insteadOf = map[framework.CertificateDefect]framework.CertificateDefect{defect: other}
			i, err := f.Inject(t.Context(), c, target, Params{TTL: ttl})
			if err != nil || i.Proof().Proven || !strings.Contains(i.Proof().What, "in another way") {
				t.Fatalf("%+v, %v", i.Proof(), err)
			}
		})
	}
	inBubble(t, "healed when the component looks at the files the next time", func(t *testing.T, c *fakeCluster) {
		c.nodes[1].trust.reloads = 65 * time.Second
		i, err := f.Inject(t.Context(), c, target, Params{TTL: ttl})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%+v, %v", i, err)
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
	})
	inBubble(t, "a node whose certificates cannot be replaced", func(t *testing.T, c *fakeCluster) {
		c.refuses = errors.ErrUnsupported
		_, err := f.Inject(t.Context(), c, target, Params{TTL: ttl})
		if missing, ok := errors.AsType[*MissingAbility](err); !ok || missing.Ability != "CertificateFaulter" {
			t.Errorf("got %v", err)
		}
	})
	inBubble(t, "only what serves with files", func(t *testing.T, c *fakeCluster) {
		if err := f.Check(c, component("node-2", framework.Scheduler), Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "apiserver/2") {
			t.Errorf("got %v", err)
		}
	})
}
