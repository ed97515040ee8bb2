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
			return errors.New("no application exists: the traffic does not have the profile application, or the application was not observed yet")
		}
		for name, lack := range lacks {
			seen[name] = seen[name] || lack == ""
		}
		for _, name := range slices.Sorted(maps.Keys(lacks)) {
			if !seen[name] {
				return fmt.Errorf("%s has not reached its desired state yet: %s", name, lacks[name])
			}
		}
		return nil
	}
}
