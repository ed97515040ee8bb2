package engine

import (
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// nodes checks an action's fields about a node change.
func (v *validator) nodes(path string, a *Action) {
	if !ChangesNodes(a.Name) {
		if a.ID != "" {
			v.add(path+".as", "action %s does not change nodes", a.Name)
		}
		if a.Node != "" {
			v.add(path+".node", "action %s does not change a node", a.Name)
		}
		if a.To != "" || a.Args != nil {
			v.add(path, "action %s accepts neither 'to' nor 'args'", a.Name)
		}
		if a.Interrupt != 0 || a.Undo {
			v.add(path, "action %s is not a change of nodes that can be interrupted", a.Name)
		}
		return
	}
	if a.Interrupt != 0 && (!adds(a.Name) && !changesInPlace(a.Name) || a.Interrupt < 0) {
		v.add(path+".interrupt", "%d on %s: want the number of a step, from 1 on, of an action that adds a node or changes one in place", a.Interrupt, a.Name)
	}
	if undoes := a.Name == actionUpgrade || a.Name == actionRotateCA; a.Undo && (a.Interrupt == 0 || !undoes) {
		v.add(path+".undo", "only an upgrade or a rotate-ca with interrupt can be rolled back")
	}
	_, dup := v.changes[a.ID]
	switch {
	case a.ID == "" && adds(a.Name):
		v.add(path+".as", "is missing: want a name for the node, by which later steps can refer to it")
	case a.ID == "":
	case !validName.MatchString(a.ID):
		v.add(path+".as", "%q is not a name for a change of nodes: want lower-case letters, digits and dashes", a.ID)
	case dup:
		v.add(path+".as", "another change of nodes is already called %q", a.ID)
	}
	if changesInPlace(a.Name) {
		v.inPlace(path, a)
		return
	}
	if a.To != "" || a.Args != nil {
		v.add(path, "action %s accepts neither 'to' nor 'args'", a.Name)
	}
	if adds(a.Name) {
		left := slices.Index(v.left, a.Node)
		switch {
		case a.Name == actionAddNode && a.Node != "":
			v.add(path+".node", "an added node has its own name: set it with as")
		case a.Name == actionReplaceNode && left < 0:
			v.add(path+".node", "%q is not the name (as) of an earlier step that removes or loses a node", a.Node)
		case a.Name == actionReplaceNode && a.Interrupt == 0:
			v.left = slices.Delete(v.left, left, left+1)
		}
		// An interrupted one is taken back.
		if v.changes[a.ID] = a.Interrupt == 0; a.Interrupt == 0 {
			v.joined = append(v.joined, a.ID)
		}
		return
	}
	nodes := []string{a.Node}
	if a.Name == actionLoseNode {
		nodes = strings.Split(a.Node, ",")
	}
	for _, node := range nodes {
		v.leaves(path+".node", strings.TrimSpace(node))
		if a.ID != "" {
			v.left = append(v.left, a.ID)
		}
	}
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
		v.add(path, "no node added by %q exists before this step", node)
	case known:
		v.changes[node] = false
	default:
		if _, err := fault.Names("node/" + strings.TrimPrefix(node, "node/")); err != nil {
			v.add(path, "%w", err)
		}
	}
}

// changesOf checks which changes of nodes a check names.
func (v *validator) changesOf(path, list string) {
	for id := range strings.SplitSeq(list, ",") {
		if _, ok := v.changes[strings.TrimSpace(id)]; !ok {
			v.add(path, "no step changes the nodes as %q; there is %s", strings.TrimSpace(id), listed(sortedKeys(v.changes)))
		}
	}
}

// inPlace checks an action's fields about the node that it changes, and how.
func (v *validator) inPlace(path string, a *Action) {
	if there, known := v.changes[a.Node]; known && !there {
		v.add(path+".node", "no node added by %q exists before this step", a.Node)
	} else if _, err := fault.Names("node/" + strings.TrimPrefix(a.Node, "node/")); !known && err != nil {
		v.add(path+".node", "%w", err)
	}
	switch {
	case a.Name == actionReconfigure && (len(a.Args) == 0 || a.To != ""):
		v.add(path+".args", "want the arguments to restart components with, by component and by flag, and no version")
	case a.Name == actionRotate && (a.To != "" || a.Args != nil):
		v.add(path, "action %s accepts neither 'to' nor 'args'", a.Name)
	case a.Name == actionRotateCA && (!slices.Contains(framework.TrustStageNames, a.To) || a.Args != nil):
		v.add(path+".to", "%q is not a stage of the replacement of the CAs: want one of %s, and no args", a.To, strings.Join(framework.TrustStageNames, ", "))
	case (a.Name == actionUpgrade || a.Name == actionUpgradeEtcd) && (!semver.IsValid(a.To) || semver.Canonical(a.To) != a.To || a.Args != nil):
		v.add(path+".to", "%q is not what to upgrade to: want a full version such as v1.37.1, and no args", a.To)
	}
	for _, component := range sortedKeys(a.Args) {
		if known := []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler}; !slices.Contains(known, framework.Component(component)) {
			v.add(path+".args."+component, "want one of %v", known)
		}
	}
	if a.ID != "" {
		v.changes[a.ID] = false
	}
}
