package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// writers is the profile of clients that read and write the registers.
type writers struct {
	t        *Traffic
	settings RegisterSettings
}

func (p writers) start() error {
	for i := range p.settings.Keys {
		p.t.registers.keys = append(p.t.registers.keys, fmt.Sprintf("register-%d-%s", i, p.t.suffix))
	}
	return p.t.perEntrance(ProfileRegisters, p.settings.ClientsPerEntrance, func(r *registers, random *rand.Rand, number int) {
		c := &writer{registers: r, values: newValues(random, fmt.Sprintf("c%d", number), p.settings.ValueSize), known: map[string]record.Op{}}
		p.t.loop(r.left, random, p.settings.Interval, c.act)
	})
}

// finish reads every register through each API server, as the traffic left it: later writes would
// hide earlier losses. Then it writes every register once more, so that a loss in a watch shows,
// and reads them all again.
func (p writers) finish(ctx context.Context) {
	for _, do := range []func(context.Context){p.finalReads, p.finalWrites, p.finalReads} {
		limited, cancel := context.WithTimeout(ctx, p.t.final/3)
		do(limited)
		cancel()
	}
}

func (p writers) finalReads(ctx context.Context) {
	p.t.finally(ctx, func(ctx context.Context, r *registers) {
		for _, key := range p.t.registers.keys {
			tryUntil(ctx, func() bool {
				op := r.get(ctx, key)
				return op.Outcome == record.OK && !op.IsOther()
			})
		}
	})
}

// finalWrites writes each register, through one API server after another until one acknowledges
// it, and records those writes as the last ones.
func (p writers) finalWrites(ctx context.Context) {
	c := p.t.registers
	var clients []*registers
	for _, e := range apiServers(p.t.cfg.Cluster.Entrances()) {
		r, err := p.t.client(e, "final/"+e.Name, "final-write")
		if err != nil {
			continue // start made clients of the same configuration
		}
		defer r.close()
		clients = append(clients, r)
	}
	if len(clients) == 0 {
		return
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	ends := map[string]end{}
	for i, key := range c.keys {
		group, tries := groups[i%len(groups)], i
		all.Go(func() {
			tryUntil(ctx, func() bool {
				r := *clients[tries%len(clients)]
				r.name = fmt.Sprintf("final/%d", i) // a client does one thing at a time
				tries++
				value := content{value: fmt.Sprintf("final-%d-%d", i, tries), group: group}
				op := r.get(ctx, key)
				if op.Outcome == record.OK && op.Found && op.Revision != "" {
					op = r.update(ctx, key, value, op.Revision)
				} else if op.Outcome == record.OK && !op.Found {
					op = r.create(ctx, key, value)
				}
				if op.Outcome != record.OK || op.Type == record.OpGet {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				ends[key] = end{record.Number(op.Revision), group}
				return true
			})
		})
	}
	all.Wait()
	c.close(ends)
}

// values generates what a client writes.
type values struct {
	random *rand.Rand
	name   string // of the client, short
	size   int    // of every tenth value
	n      int
}

func newValues(random *rand.Rand, name string, size int) *values {
	return &values{random: random, name: name, size: size}
}

// next returns a value that no other client writes, and its size.
func (v *values) next() (value string, size int) {
	v.n++
	if v.random.IntN(10) == 0 {
		size = v.size
	}
	return fmt.Sprintf("%s-%d", v.name, v.n), size
}

type writer struct {
	*registers
	*values
	// known is what this client last saw of each key.
	known map[string]record.Op
}

// content returns a new value; group is the current group of the register, which sometimes
// changes, and is drawn if it is not known.
func (c *writer) content(group string) content {
	switch {
	case group == "":
		group = groups[c.random.IntN(len(groups))]
	case c.random.IntN(5) == 0:
		group = groups[(slices.Index(groups[:], group)+1)%len(groups)] // the other one
	}
	value, size := c.next()
	return content{value, group, size}
}

// act makes one step: a read; a read followed immediately by a matching write (half of all steps,
// since an update of an old version would nearly always lose); or a blind create, update of an
// old version, patch, or delete.
func (c *writer) act(ctx context.Context) {
	key := c.of.keys[c.random.IntN(len(c.of.keys))]
	old := c.known[key]
	switch dice := c.random.IntN(100); {
	case dice < 35:
		c.read(ctx, key)
	case dice < 85:
		seen, ok := c.read(ctx, key)
		switch {
		case !ok:
		case !seen.Found:
			c.learn(c.create(ctx, key, c.content("")))
		case dice < 72:
			c.learn(c.update(ctx, key, c.content(seen.Group), seen.Revision))
		case dice < 80:
			c.learn(c.patch(ctx, key, c.content(seen.Group)))
		default:
			c.learn(c.delete(ctx, key, seen.Revision))
		}
	case dice < 89:
		c.learn(c.create(ctx, key, c.content("")))
	case dice < 93 && old.Revision != "":
		c.learn(c.update(ctx, key, c.content(old.Group), old.Revision))
	case dice < 97:
		c.learn(c.patch(ctx, key, c.content(old.Group)))
	default:
		c.learn(c.delete(ctx, key, ""))
	}
}

func (c *writer) read(ctx context.Context, key string) (op record.Op, ok bool) {
	op = c.get(ctx, key)
	c.learn(op)
	return op, op.Outcome == record.OK && (!op.Found || op.Revision != "")
}

func (c *writer) learn(op record.Op) {
	if op.Outcome == record.OK && op.Revision != "" {
		c.known[op.Key] = op
	}
}
