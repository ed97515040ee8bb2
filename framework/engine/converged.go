package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// convergence returns what looks at the application of the traffic (profile
// "application"), as it returns it. That is scaled all the time, so that its Deployments
// are hardly ever all as they are wanted at once: each must have been so once, at any of
// the looks.
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
