package engine

import (
	"slices"
	"strings"
)

// nodes checks what an action says of a change of nodes.
func (v *validator) nodes(path string, a *Action) {
	if !ChangesNodes(a.Name) {
		if a.ID != "" {
			v.add(path+".as", "action %s does not change which nodes there are", a.Name)
		}
		if a.Node != "" {
			v.add(path+".node", "action %s does not remove a node", a.Name)
		}
		return
	}
	_, dup := v.changes[a.ID]
	switch {
	case a.ID == "" && a.Name == actionAddNode:
		v.add(path+".as", "is missing: want a name for the node, by which later steps can speak of it")
	case a.ID == "":
	case !validName.MatchString(a.ID):
		v.add(path+".as", "%q is no name for a change of nodes: want lower-case letters, digits and dashes", a.ID)
	case dup:
		v.add(path+".as", "another change of nodes is called %q already", a.ID)
	}
	if a.Name == actionAddNode {
		if a.Node != "" {
			v.add(path+".node", "a node that is added has a name of its own: call it by as")
		}
		v.changes[a.ID] = true
		v.joined = append(v.joined, a.ID)
		return
	}
	v.leaves(path+".node", a.Node)
	if a.ID != "" {
		v.changes[a.ID] = false
	}
}

// leaves checks which node an action removes.
func (v *validator) leaves(path, node string) {
	there, known := v.changes[node]
	switch {
	case node == "":
		for _, id := range slices.Backward(v.joined) {
			if v.changes[id] {
				v.changes[id] = false
				return
			}
		}
		v.add(path, "is missing: no node that was added is left before this step")
	case known && !there:
		v.add(path, "no node that %q added is there before this step", node)
	case known:
		v.changes[node] = false
	default:
		if err := checkTarget("node/" + strings.TrimPrefix(node, "node/")); err != nil {
			v.add(path, "%w", err)
		}
	}
}

// changesOf checks which changes of nodes a check names.
func (v *validator) changesOf(path, list string) {
	for id := range strings.SplitSeq(list, ",") {
		if _, ok := v.changes[strings.TrimSpace(id)]; !ok {
			v.add(path+".params.changes", "no step changes the nodes as %q; there is %s", strings.TrimSpace(id), listed(sortedKeys(v.changes)))
		}
	}
}
