package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// powered is a node whose power the owner's commands cut.
type powered struct{ *node }

var (
	_ framework.PowerSwitch     = powered{}
	_ framework.BootReporter    = powered{}
	_ framework.ProcessReporter = powered{}
)

// outlet is the state of a node's power.
type outlet struct {
	*power
	// mu is held while power is cut or restored.
	mu     sync.Mutex
	before string // identifies the boot before the power was cut; empty if the node is back
	guard  atomic.Pointer[guard]
	dark   atomic.Bool // the power was off, and the node is not back
	booted atomic.Pointer[time.Time]
}

// bootLimit is how long a node may take from power-on until its agent answers.
const bootLimit = 3 * time.Minute

// off reports whether the node has no power because this process cut it. When its guard is gone the
// power is on.
func (n *node) off() bool {
	if n.outlet == nil || !n.outlet.dark.Load() {
		return false
	}
	select {
	case <-n.outlet.guard.Load().gone:
		return false
	default:
		return true
	}
}

// errOff is the error of a request to a node without power.
func (n *node) errOff() error { return fmt.Errorf("node %s is powered off", n.Name()) }

// dialAgent opens a connection to the node's agent.
func (n *node) dialAgent(ctx context.Context) (net.Conn, error) {
	if n.off() {
		return nil, n.errOff()
	}
	if n.found.lost != nil {
		return nil, n.found.lost
	}
	return n.shell.dialAgent(ctx)
}

// Process implements framework.ProcessReporter. It does not wait for an agent without power.
func (p powered) Process(ctx context.Context, c framework.Component) (framework.Process, error) {
	if p.off() {
		return framework.Process{}, p.errOff()
	}
	return p.node.Process(ctx, c)
}

// CheckPowerOff implements framework.PowerChecker.
func (c *Cluster) CheckPowerOff(nodes []string) error {
	const what = "cut the power"
	if err := c.permits(Power, what); err != nil {
		return err
	}
	for _, n := range c.reached {
		for _, name := range nodes {
			if n.Name() == name && !n.found.sight.systemd {
				return framework.Untouched{Err: &fault.MissingAbility{Ability: "PowerSwitch", Of: "node " + name, For: "to " + what,
					Why: "it does not run systemd, so that its agent would not start with it"}}
			}
		}
	}
	key := rand.Text()
	if err := c.breaks(key, nodes, 0); err != nil {
		return err
	}
	c.broken.mend(key)
	return nil
}

// PowerOff implements framework.PowerSwitch, if the owner has consented. It returns once the
// status command reports off. Its guard restores the power after ttl, or when this process exits.
func (p powered) PowerOff(ctx context.Context, ttl time.Duration) error {
	o := p.outlet
	if err := p.cluster.CheckPowerOff([]string{p.Name()}); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now, err := p.beforeOff(ctx, ttl)
	if err != nil {
		return framework.Untouched{Err: err}
	}
	if err := p.cluster.breaks(p.powerKey(), []string{p.Name()}, ttl+bootLimit); err != nil {
		return err
	}
	g, err := startGuard(o.power, ttl)
	if err != nil {
		p.cluster.broken.mend(p.powerKey())
		return framework.Untouched{Err: err}
	}
	o.dark.Store(false)
	o.guard.Store(g)
	o.before = now.id
	if err := g.cut(ctx); err != nil {
		return err
	}
	o.dark.Store(true)
	p.shell.close() // its connections would wait for answers
	return nil
}

// beforeOff returns the current boot of a node that has power. It waits for the guard of an earlier
// loss of power, whose time to live is over.
func (p powered) beforeOff(ctx context.Context, ttl time.Duration) (boot, error) {
	on, err := p.outlet.status(ctx)
	switch g := p.outlet.guard.Load(); {
	case err != nil:
		return boot{}, err
	case !on:
		return boot{}, fmt.Errorf("%s is already powered off", p.Name())
	case ttl <= 0:
		return boot{}, errors.New("it needs a time to live above zero")
	case g != nil:
		if err := g.release(ctx); err != nil {
			return boot{}, err
		}
	}
	return p.boot(ctx)
}

// powerKey is the key of a node without power in broken.
func (n *node) powerKey() string { return n.Name() + " power" }

// PowerOn implements framework.PowerSwitch. It returns once the node's agent answers after a new
// boot.
func (p powered) PowerOn(ctx context.Context) error {
	o := p.outlet
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, bootLimit, fmt.Errorf("it was not back within %s", bootLimit))
	defer cancel()
	if g := o.guard.Load(); g != nil {
		if err := g.release(ctx); err != nil {
			return fmt.Errorf("failed to restore the power of %s: %w (its guard keeps trying)", p.Name(), err)
		}
	}
	if err := o.on(ctx); err != nil { // a guard may have been killed
		return fmt.Errorf("failed to restore the power of %s: %w", p.Name(), err)
	}
	if o.before == "" {
		return nil
	}
	var now boot
	err := await.Until(ctx, time.Second, func(ctx context.Context) (err error) {
		if now, err = p.boot(ctx); err == nil && o.dark.Load() && now.id == o.before {
			err = errors.New("the machine did not restart: do the power commands belong to another machine?")
		}
		if err == nil {
			err = p.Ping(ctx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("node %s has its power back, and its agent does not answer: %w", p.Name(), err)
	}
	if o.dark.Swap(false) {
		o.booted.Store(&now.at)
	}
	o.before = ""
	p.cluster.broken.mend(p.powerKey())
	return nil
}

// Powered implements framework.PowerSwitch: a node whose agent answers is on, and that is faster
// to find out than what the status command asks.
func (p powered) Powered(ctx context.Context) (bool, error) {
	if !p.outlet.dark.Load() && p.Ping(ctx) == nil {
		return true, nil
	}
	return p.outlet.status(ctx)
}

// Booted implements framework.BootReporter.
func (p powered) Booted() time.Time {
	if at := p.outlet.booted.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// withoutPower returns an error if the status command reports off. The power may not be what a run
// cut: then only the owner knows why it is off.
func (n *node) withoutPower(ctx context.Context) error {
	if n.outlet == nil {
		return nil
	}
	on, err := n.outlet.status(ctx)
	if err == nil && !on {
		err = fmt.Errorf("%w: switch it on, and try again", n.errOff())
	}
	return err
}

// restorePower restores the power of a node if this process cut it.
func (n *node) restorePower(ctx context.Context) error {
	if n.outlet == nil || n.outlet.guard.Load() == nil {
		return nil
	}
	return powered{n}.PowerOn(ctx)
}

// bootScript prints what identifies the boot of a node: nodes that are containers share the boot
// ID, and have a first process of their own. Its times are in ticks and seconds.
const bootScript = `read -r stat </proc/1/stat && set -- ${stat##*) } && read -r up _ </proc/uptime && echo "boot $(cat /proc/sys/kernel/random/boot_id) ${20} $up"`

// ticks is how many clock ticks of /proc are in a second, on every architecture.
const ticks = 100

// boot is a boot of a node.
type boot struct {
	id string
	at time.Time // when its first process started, or a little later; zero if that is not known
}

// boot returns the current boot of the node.
func (n *node) boot(ctx context.Context) (boot, error) {
	out, err := n.shell.run(ctx, bootScript)
	if err != nil {
		return boot{}, err
	}
	b, err := parseBoot(out, time.Now())
	if err != nil {
		return b, fmt.Errorf("failed to identify the boot of %s: %w", n.Name(), err)
	}
	return b, nil
}

func parseBoot(out string, now time.Time) (b boot, err error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != "boot" {
			continue
		}
		start, err := strconv.ParseFloat(fields[2], 64)
		up, problem := strconv.ParseFloat(fields[3], 64)
		if err := errors.Join(err, problem); err != nil {
			return b, err
		}
		b.id = fields[1] + "-" + fields[2]
		if age := up - start/ticks; age >= 0 {
			b.at = now.Add(-time.Duration(age * float64(time.Second)))
		}
		return b, nil
	}
	return b, fmt.Errorf("it printed %q", lastLines(out))
}
