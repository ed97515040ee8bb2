package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/local/podmaster"
	"github.com/holdfast-ha/holdfast/framework"
)

// A component that is elected by a supervisor runs only while its agent is told to
// admit it, each time until some moment. The agent ends it at that moment on its own:
// the one who admits it may have ended, or be frozen. A graceful end could take longer
// than there is time, so it is killed.

var _ framework.LockReporter = (*Cluster)(nil)

// Locks implements framework.LockReporter.
func (c *Cluster) Locks() map[framework.Component]string {
	locks := map[framework.Component]string{}
	for name, how := range c.spec.Spec.Election {
		if how.Supervised() {
			locks[name] = podmaster.Key(name)
		}
	}
	return locks
}

// unelected has the components that a supervisor elects not elect themselves.
func (c *Cluster) unelected(args clusters.ExtraArgs) clusters.ExtraArgs {
	off := clusters.ExtraArgs{}
	for name := range c.Locks() {
		off[name] = map[string]string{"leader-elect": "false"}
	}
	return args.Merge(off)
}

// addPodmaster puts the podmaster on a node's machine, where the cluster has
// components for it.
func (c *Cluster) addPodmaster(m *machine, spec clusters.Node) error {
	file := func(name string) string { return filepath.Join(m.dir, pkiDir, name) }
	config := podmaster.Config{Node: spec.Name, Agent: m.config.Socket, Etcd: component.EtcdURL(m.addr.Addr()),
		Cert: file(pki.APIServerEtcdCert), Key: file(pki.APIServerEtcdKey), CA: file(pki.EtcdCACert)}
	for i := range m.config.Components {
		run := &m.config.Components[i]
		how := c.spec.Spec.Election[run.Name]
		if !how.Supervised() {
			continue
		}
		run.Supervised = true
		lease, renew, retry, err := spec.ElectionTimes(run.Name)
		if err != nil {
			return err
		}
		config.Components = append(config.Components, podmaster.Component{Name: run.Name,
			Times: podmaster.Times{Lease: lease, Renew: renew, Retry: retry}, Careless: how == clusters.ElectionCareless})
	}
	if len(config.Components) == 0 {
		return nil
	}
	path := filepath.Join(m.dir, "podmaster.json")
	b, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration of the podmaster of %s: %w", m.name, err)
	}
	m.config.Components = append(m.config.Components, componentSpec{Name: framework.Podmaster, Path: "/proc/self/exe",
		Args: []string{rolePodmaster, path}, Dir: m.dir, Log: filepath.Join(m.logs, string(framework.Podmaster)+".log")})
	return nil
}

// standsBy reports whether the component may not run for lack of an admission.
func (s *supervisor) standsBy() bool {
	return s.spec.Supervised && podmaster.Now() >= s.a.saved(s.spec.Name).AdmittedUntil
}

// admit lets the component run until then; where that has passed, it returns when the
// component has ended.
func (s *supervisor) admit(until time.Duration) error {
	if !s.spec.Supervised {
		return errors.New("it elects its active instance itself")
	}
	s.mu.Lock()
	waits := s.standsBy()
	s.a.update(s.spec.Name, func(st *savedState) { st.AdmittedUntil = until })
	ends := s.standsBy()
	s.expireLater()
	proc, gone := s.proc, s.gone
	s.mu.Unlock()
	if waits != ends {
		s.signalWake()
	}
	if ends && proc != nil {
		<-gone
	}
	return nil
}

// expireLater ends the component when its admission runs out, or now if it has; with
// mu held.
func (s *supervisor) expireLater() {
	if !s.spec.Supervised {
		return
	}
	if s.expiring != nil {
		s.expiring.Stop()
	}
	left := s.a.saved(s.spec.Name).AdmittedUntil - podmaster.Now()
	if left > 0 {
		s.expiring = time.AfterFunc(left, s.expire)
	} else if s.proc != nil {
		_ = s.proc.Kill()
	}
}

// expire ends the component unless it was admitted again.
func (s *supervisor) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standsBy() && s.proc != nil {
		_ = s.proc.Kill()
	}
}
