package framework

import (
	"errors"
	"sync"
)

// Each calls do for all items concurrently, all of them even if some fail, and joins their
// errors in the order of the items.
func Each[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { errs[i] = do(item) })
	}
	all.Wait()
	return errors.Join(errs...)
}
