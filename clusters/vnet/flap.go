package vnet

import (
	"errors"
	"time"
)

// flapMin is the shortest phase of a rule that flaps.
const flapMin = time.Millisecond

func validateFlap(i Impairment) error {
	if (i.FlapOn != 0 || i.FlapOff != 0) && (i.FlapOn < flapMin || i.FlapOff < flapMin) {
		return errors.New("the phases of a flapping impairment must both be 1ms or longer")
	}
	return nil
}

// acts reports whether the rule is in an on phase. When one begins, existing connections count
// as established.
func (r *rule) acts(now func() int64) bool {
	if r.FlapOn == 0 {
		return true
	}
	since := time.Duration(now() - r.began)
	period := r.FlapOn + r.FlapOff
	if turn := int64(since / period); turn != r.turn {
		r.turn, r.fresh = turn, connections{}
	}
	return since%period < r.FlapOn
}
