package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// Rotation is what is replaced on the nodes, one by one.
type Rotation string

const (
	RotateCertificates Rotation = "certificates"
	RotateCA           Rotation = "ca"
)

// rotate replaces the certificates of one node or of all, or the CAs of all.
func (s *server) rotate(ctx context.Context, r ChangeRequest) (refused bool, err error) {
	rotator, ok := s.cluster.(framework.CertificateRotator)
	if !ok {
		return true, fmt.Errorf("certificates of cluster %s cannot be rotated: its provider cannot do that yet", s.cluster.Name())
	}
	names := framework.NodeNames(s.cluster.Nodes())
	if r.Node != "" && !slices.Contains(names, r.Node) {
		return true, fmt.Errorf("cluster %s has no control-plane node %s: its nodes are %s", s.cluster.Name(), r.Node, strings.Join(names, ", "))
	}
	if r.Rotate == RotateCertificates {
		if r.Node != "" {
			names = []string{r.Node}
		}
		if r.Check {
			return true, nil
		}
		for i, name := range names {
			if err := rotator.RotateCertificates(ctx, name); err != nil {
				return i == 0 && errors.Is(err, framework.ErrNothingDone), err
			}
		}
		return false, nil
	}
	replacer, ok := s.cluster.(framework.CARotator)
	if !ok {
		return true, fmt.Errorf("the CAs of cluster %s cannot be replaced: its provider cannot do that yet", s.cluster.Name())
	}
	changes, err := planTrust(names, replacer.TrustStages(), r.Undo)
	if r.Check || err != nil {
		return true, err
	}
	for i, c := range changes {
		err := replacer.RotateCA(ctx, c.node, c.to)
		// Also after an error: the nodes may trust or use other CAs now.
		if writing := s.writeKubeconfig(); err == nil {
			err = writing
		}
		if err != nil {
			return i == 0 && errors.Is(err, framework.ErrNothingDone), err
		}
	}
	return false, nil
}

// trustChange moves a node to a stage.
type trustChange struct {
	node string
	to   framework.TrustStage
}

// planTrust returns the changes that complete the replacement of the CAs, or roll it back: one
// stage after the other, and in each one node after the other.
func planTrust(names []string, at map[string][2]framework.TrustStage, undo bool) (changes []trustChange, err error) {
	stages := []framework.TrustStage{framework.TrustBoth, framework.TrustBothUseNew, framework.TrustNew}
	if undo {
		stages = []framework.TrustStage{framework.TrustBothUseNew, framework.TrustBoth, framework.TrustOld}
	}
	for _, to := range stages {
		for _, name := range names {
			if ahead := at[name][0] >= to; !undo && !ahead || undo && at[name][1] > to {
				changes = append(changes, trustChange{name, to})
			}
		}
	}
	switch {
	case len(changes) > 0:
		return changes, nil
	case undo:
		return nil, errors.New("no node uses or trusts a new CA: nothing to undo")
	}
	return nil, errors.New("the CAs can be replaced only once per cluster, and that was done: create another cluster, or go back with --undo")
}
