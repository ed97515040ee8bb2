package podmaster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Config is the configuration of a node's podmaster.
type Config struct {
	Node string `json:"node"`
	// Agent is the socket of the node's agent.
	Agent string `json:"agent"`
	// Etcd is a client of the node's own member. A component whose node has lost its etcd could
	// not work there.
	Etcd agent.EtcdClient `json:"etcd"`

	Components []Component `json:"components"`
}

// Component is a component that the podmaster elects.
type Component struct {
	Name framework.Component `json:"name"`
	Times
	// Careless leaves the component running when its lock is lost: a planted violation.
	Careless bool `json:"careless,omitempty"`
}

// Main is the podmaster's process: it competes for the locks of all components of the
// configuration in the file that its only argument names. On SIGTERM it stops its components,
// and releases the locks.
func Main(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: podmaster CONFIG")
	}
	var c Config
	if err := system.ReadJSON(args[0], &c); err != nil {
		return fmt.Errorf("failed to read the podmaster's configuration %s: %w", args[0], err)
	}
	etcd, err := client.NewEtcd(c, c.Node)
	if err != nil {
		return err
	}
	defer etcd.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node := agent.NewLocalClient(c.Node, c.Agent)
	defer node.Close()
	var all sync.WaitGroup
	for _, component := range c.Components {
		m := &master{Component: component, node: c.Node, etcd: etcd, agent: node,
			log: func(format string, args ...any) {
				fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
			}}
		all.Go(func() { m.run(ctx) })
	}
	all.Wait()
	return nil
}

// EtcdConfig implements framework.EtcdAccess for the node's own member.
func (c Config) EtcdConfig(string) (clientv3.Config, error) {
	tls, err := c.Etcd.TLS()
	return clientv3.Config{Endpoints: []string{c.Etcd.URL}, TLS: tls}, err
}
