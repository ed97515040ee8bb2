package framework

import (
	"errors"
	"sync"
)

// Map calls do for all items concurrently and returns the results in the order of the items. For
// no items it returns an empty slice, not nil.
func Map[T, R any](items []T, do func(T) R) []R {
	results := make([]R, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { results[i] = do(item) })
	}
	all.Wait()
	return results
}

// Each calls do for all items concurrently, all of them even if some fail, and joins their
// errors in the order of the items.
func Each[T any](items []T, do func(T) error) error { return errors.Join(Map(items, do)...) }

// Names returns the name of each item in the order of the items, nil for no items.
func Names[T any](items []T, name func(T) string) []string {
	var names []string
	for _, item := range items {
		names = append(names, name(item))
	}
	return names
}
