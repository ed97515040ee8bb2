package vnet

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned for a switch or port that has been closed.
var ErrClosed = errors.New("the switch is closed")

// Config configures a switch. The zero value is useful.
type Config struct {
	// Seed is the seed of all randomness: the decisions of a rule on a link
	// are the same for the same seed, rule number and sequence of packets.
	Seed uint64
	// MTU is the MTU of ports that do not set their own; 1500 if 0.
	MTU int
}

// Switch is a learning Ethernet switch. Its methods may be called from any
// goroutine.
type Switch struct {
	config Config
	now    func() int64 // nanoseconds since the start, never 0

	// waiting counts the callers that wait for mu, so that the loop lets them run between two
	// frames.
	waiting atomic.Int32
	// mu guards the fields below. Descriptors are used only while it is held, so a caller's
	// change is active when it releases mu.
	mu        sync.Mutex
	closed    bool
	loop      *loop // nil before the first Attach
	parties   map[string]*party
	ordered   []*party // in the order of their first Attach
	ports     map[int32]*Port
	lastPort  int32
	links     [][]*link // by index of sender and receiver
	addresses map[address]*party
	rules     map[RuleID]*rule
	lastRule  RuleID
	removed   []RuleID // inactive ones in rules, the oldest first
	queue     queue

	// Scratch space of the packet path.
	segment []byte
	matched []*linkRule
	holds   []hold

	attaching sync.WaitGroup

	veths vethSpace
}

// party is a name on the switch. It outlives its ports.
type party struct {
	name     string
	index    int
	port     *Port // nil while none is attached
	reserved bool  // Attach is under way
	attached bool  // a port has been attached, now or before
}

// New returns a switch without ports. It uses no descriptor and no goroutine
// until the first port is attached.
func New(config Config) *Switch {
	config.MTU = cmp.Or(config.MTU, 1500)
	start := time.Now()
	return &Switch{
		config:    config,
		now:       func() int64 { return int64(time.Since(start)) + 1 },
		parties:   make(map[string]*party),
		ports:     make(map[int32]*Port),
		addresses: make(map[address]*party),
		rules:     make(map[RuleID]*rule),
		segment:   make([]byte, 0, bufferSize),
	}
}

// lock takes the lock for a caller from outside the loop.
func (s *Switch) lock() (unlock func()) {
	s.waiting.Add(1)
	s.mu.Lock()
	s.waiting.Add(-1)
	return s.mu.Unlock
}

// link returns the link between two parties.
func (s *Switch) link(from, to *party) *link {
	l := s.links[from.index][to.index]
	if l == nil {
		l = &link{from: from, to: to}
		s.links[from.index][to.index] = l
	}
	return l
}

// known returns the party of a name under which a port has been attached.
func (s *Switch) known(name string) *party {
	if p := s.parties[name]; p != nil && p.attached {
		return p
	}
	return nil
}

// party returns the party of a name, and creates it on first use.
func (s *Switch) party(name string) *party {
	if p := s.parties[name]; p != nil {
		return p
	}
	p := &party{name: name, index: len(s.ordered)}
	s.parties[name] = p
	s.ordered = append(s.ordered, p)
	for i := range s.links {
		s.links[i] = append(s.links[i], nil)
	}
	s.links = append(s.links, make([]*link, len(s.ordered)))
	return p
}

// LinkStatus is the state of one directed link.
type LinkStatus struct {
	From string
	To   string
	LinkCounters
	// Rules are the active rules, in the order of their activation.
	Rules []RuleID
}

// Link returns the state of one directed link. It is empty if nothing was ever sent, or a name
// is unknown.
func (s *Switch) Link(from, to string) LinkStatus {
	unlock := s.lock()
	defer unlock()
	f, t := s.known(from), s.known(to)
	if f == nil || t == nil {
		return LinkStatus{From: from, To: to}
	}
	return s.link(f, t).status()
}

func (l *link) status() LinkStatus {
	status := LinkStatus{From: l.from.name, To: l.to.name, LinkCounters: l.counters}
	for _, r := range l.rules {
		status.Rules = append(status.Rules, r.rule.id)
	}
	return status
}

// Close unplugs and removes all ports and stops the switch: none of its goroutines, descriptors
// or devices is left. Closing it again does nothing. The counters can still be read.
func (s *Switch) Close() error {
	unlock := s.lock()
	if s.closed {
		unlock()
		return nil
	}
	s.closed = true
	s.wake()
	unlock()

	s.attaching.Wait()
	var errs []error
	unlock = s.lock()
	ports := make([]*Port, 0, len(s.ports))
	for _, p := range s.ports {
		ports = append(ports, p)
	}
	running := s.loop
	unlock()
	// The kernel needs some 20 ms for each, most of which is waiting.
	var closing sync.WaitGroup
	failed := make([]error, len(ports))
	for i, p := range ports {
		closing.Go(func() { failed[i] = p.Close() })
	}
	closing.Wait()
	errs = append(errs, failed...)
	if running != nil {
		<-running.done
		errs = append(errs, running.close())
	}
	errs = append(errs, s.veths.close())
	return errors.Join(errs...)
}

// closeFile closes a file that may be nil.
func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
