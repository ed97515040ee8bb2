package workload

import (
	"cmp"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Labels of a register of the traffic.
const (
	collectionLabel = "holdfast.dev/collection"
	groupLabel      = "holdfast.dev/group"
)

// groups are those of a collection.
var groups = [...]string{"a", "b"}

// collection is the keys that clients of different profiles share.
type collection struct {
	name string
	keys []string

	mu sync.Mutex
	// recent are the last versions that any client saw.
	recent []string
	// oldest is the first version that any client saw.
	oldest string
	// ends are the last writes of the keys, once no more will follow.
	ends map[string]end
}

// end is the last write of a key.
type end struct {
	revision uint64
	group    string
}

// recentVersions is how many versions a collection remembers. At the default
// rate the oldest of them is about a second old.
const recentVersions = 32

// saw records a version that a client received.
func (c *collection) saw(revision string) {
	if revision == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldest = cmp.Or(c.oldest, revision)
	if len(c.recent) == recentVersions {
		c.recent = c.recent[1:]
	}
	c.recent = append(c.recent, revision)
}

// version returns one that a client saw; empty if there is none.
func (c *collection) version(random *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == 0 {
		return ""
	}
	return c.recent[random.IntN(len(c.recent))]
}

// span returns the first version that any client saw and the highest of the recent ones, both
// empty if there are none.
func (c *collection) span() (oldest, newest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.recent {
		if record.Number(v) > record.Number(newest) {
			newest = v
		}
	}
	return c.oldest, newest
}

// close records the last writes of the keys.
func (c *collection) close(ends map[string]end) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = ends
}

// last returns the last writes that a watch of a key, of a group or, if both are empty, of the
// whole collection must show; none while more may follow.
func (c *collection) last(key, group string) map[string]end {
	c.mu.Lock()
	defer c.mu.Unlock()
	ends := map[string]end{}
	for k, e := range c.ends {
		if (key == "" || key == k) && (group == "" || group == e.group) {
			ends[k] = e
		}
	}
	return ends
}

// progress is how far a client has come by watching.
type progress struct {
	mu sync.Mutex
	// upTo is a version up to which nothing more will arrive.
	upTo uint64
	keys map[string]uint64 // the newest version of each key
}

// begin records that the client knows the state of a version.
func (p *progress) begin(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upTo, p.keys = revision, map[string]uint64{}
}

// add adds an event; ordered reports that nothing older will follow.
func (p *progress) add(key, revision string, ordered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := record.Number(revision)
	if ordered {
		p.upTo = max(p.upTo, n)
	}
	p.keys[key] = max(p.keys[key], n)
}

// shows reports whether the client has seen all of some writes.
func (p *progress) shows(ends map[string]end) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range ends {
		if p.upTo < e.revision && p.keys[key] < e.revision {
			return false
		}
	}
	return true
}
