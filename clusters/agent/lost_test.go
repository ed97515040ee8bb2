package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestLostState: an agent that cannot read the state of the one before heals all the same what that
// one had begun, and reports that it did so early.
func TestLostState(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, file string, state []byte){
		"empty":        func(t *testing.T, file string, _ []byte) { write(t, file, "") },
		"truncated":    func(t *testing.T, file string, state []byte) { write(t, file, string(state[:len(state)/2])) },
		"missing":      func(t *testing.T, file string, _ []byte) { must(t, os.Remove(file)) },
		"incompatible": func(t *testing.T, file string, _ []byte) { write(t, file, "[]") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			suffix := fmt.Sprint("-", nodes.Add(1))
			frozen := supervised(t, "frozen"+suffix, "0.05")
			supervised(t, "etcd"+suffix, "1.5")
			n.config.Components = []Component{{Name: scheduler, Command: "frozen" + suffix}, {Name: etcdPod, Command: "etcd" + suffix}}
			n.config.PKI, n.config.EtcdData = newPKI(t), filepath.Join(t.TempDir(), "etcd")
			own := filepath.Join(n.config.EtcdData, "member", "own")
			mkdir(t, filepath.Dir(own))
			write(t, own, "data")
			n.Balancer = balancerName
			n.up()
			n.runs(scheduler)
			n.runs(etcdPod)
			must(t, n.Freeze(t.Context(), scheduler, time.Hour))
			must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Hour))
			_, err := n.WipeDisk(t.Context(), time.Hour)
			must(t, err)
			n.kill()
			file := stateFile(n.config.Dir)
			state, err := os.ReadFile(file)
			must(t, err)
			lose(t, file, state)
			n.up()
			if !exists(own) {
				t.Error("the member does not have its own data")
			}
			if err := verify(t, n.config.PKI, "apiserver", "ca", balancerName); err != nil {
				t.Errorf("the certificate is not the node's own: %v", err)
			}
			eventually(t, "the scheduler continues", func() bool { pid := frozen(); return pid != 0 && stateOf(pid) != "T" })
			if left, err := n.Active(t.Context()); err != nil || len(left) > 0 {
				t.Errorf("active are %q, %v", left, err)
			}
			if ago, err := n.Lapsed(t.Context()); err != nil || ago <= 0 {
				t.Errorf("it healed early %s ago, %v", ago, err)
			}
			if left, err := filepath.Glob(filepath.Join(n.config.Dir, "undo*")); err != nil || len(left) > 0 {
				t.Errorf("there is left %q, %v", left, err)
			}
		})
	}
}

// TestLostStateNotHealed: a script that fails stays, and something is active, until it succeeds.
func TestLostStateNotHealed(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	space := filepath.Join(t.TempDir(), "space")
	mkdir(t, n.config.Dir)
	write(t, undoFile(n.config.Dir), "[ -e "+space+" ]\n")
	n.up()
	for range 2 {
		if left, err := n.Active(t.Context()); err != nil || len(left) != 1 || !strings.Contains(left[0], "an agent with lost state began") {
			t.Errorf("active are %q, %v", left, err)
		}
		n.kill() // the next agent has the script, too
		n.up()
	}
	write(t, space, "")
	eventually(t, "nothing is active", func() bool {
		left, err := n.Active(t.Context())
		return err == nil && len(left) == 0
	})
	if left, err := filepath.Glob(filepath.Join(n.config.Dir, "undo*")); err != nil || len(left) > 0 {
		t.Errorf("there is left %q, %v", left, err)
	}
}

// TestLostStateOfNothing: without a script nothing was active.
func TestLostStateOfNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	mkdir(t, n.config.Dir)
	write(t, stateFile(n.config.Dir), "{")
	n.up()
	left, err := n.Active(t.Context())
	must(t, err)
	if ago, err := n.Lapsed(t.Context()); err != nil || ago != 0 || len(left) > 0 || !exists(stateFile(n.config.Dir)+".broken") {
		t.Errorf("it healed early %s ago, %v; active are %q; the state is kept: %t", ago, err, left, exists(stateFile(n.config.Dir)+".broken"))
	}
}
