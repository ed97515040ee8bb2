package disk

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// journal contains the changes of names that are not durable yet, in their order. It is guarded
// by fileSystem.names.
type journal struct {
	changes []change
	// dir contains files whose removal may be undone.
	dir   string
	kepts uint64
	// reap is called with each node that a change no longer concerns.
	reap func(*node)
}

// change is one change of names.
type change struct {
	// nodes are the affected nodes: directories, and their entries.
	nodes []*node
	undo  func() error
	// final removes what was kept for undo; nil for nothing.
	final func()
}

func (j *journal) add(c change) {
	for _, n := range c.nodes {
		n.changes++
	}
	j.changes = append(j.changes, c)
}

// forget drops the references of a change that is not in the journal any more.
func (j *journal) forget(c change) {
	for _, n := range c.nodes {
		n.changes--
	}
	for _, n := range c.nodes {
		j.reap(n)
	}
}

// keep moves a file to the journal's directory.
func (j *journal) keep(path string) (kept string, err error) {
	j.kepts++
	kept = filepath.Join(j.dir, strconv.FormatUint(j.kepts, 10))
	return kept, os.Rename(path, kept)
}

// commit makes the changes durable that affect n, and the earlier ones that share a directory
// or a file with one of them. The others can then be undone independently.
func (j *journal) commit(n *node) {
	if n.changes == 0 {
		return
	}
	durable := map[*node]bool{n: true}
	var left []change
	for _, c := range slices.Backward(j.changes) {
		if !slices.ContainsFunc(c.nodes, func(n *node) bool { return durable[n] }) {
			left = append(left, c)
			continue
		}
		for _, n := range c.nodes {
			durable[n] = true
		}
		j.makeFinal(c)
	}
	slices.Reverse(left)
	j.changes = left
}

func (j *journal) commitAll() {
	for _, c := range slices.Backward(j.changes) {
		j.makeFinal(c)
	}
	j.changes = nil
}

func (j *journal) makeFinal(c change) {
	if c.final != nil {
		c.final()
	}
	j.forget(c)
}

// undo reverts everything that is not durable, and returns the number of changes.
func (j *journal) undo() (n int, err error) {
	for len(j.changes) > 0 {
		last := len(j.changes) - 1
		c := j.changes[last]
		if err := c.undo(); err != nil {
			return n, err
		}
		j.changes = j.changes[:last]
		j.forget(c)
		n++
	}
	return n, nil
}
