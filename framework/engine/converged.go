package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// convergence returns a check of the application of the traffic (profile "application"), whose
// state application returns. It is scaled all the time, so its Deployments are hardly ever all in
// their wanted state at the same time: each must have been so once, at any of the checks.
func convergence(application func() map[string]string) func(context.Context) error {
	seen := map[string]bool{}
	return func(context.Context) error {
		lacks := application()
		if len(lacks) == 0 {
			return errors.New("there is no application: the traffic has none, or it is not seen")
		}
		for name, lack := range lacks {
			seen[name] = seen[name] || lack == ""
		}
		for _, name := range slices.Sorted(maps.Keys(lacks)) {
			if !seen[name] {
				return fmt.Errorf("%s has not been as it is wanted yet: %s", name, lacks[name])
			}
		}
		return nil
	}
}
