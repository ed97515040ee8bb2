package framework

import (
	"errors"
	"testing"
)

// Each calls all functions before it waits for one, and reports every error in order.
func TestEach(t *testing.T) {
	first, second := make(chan bool), make(chan bool)
	err := Each([]func() error{
		func() error { <-second; close(first); return errors.New("one") },
		func() error { close(second); return nil },
		func() error { <-first; return errors.New("three") },
	}, func(do func() error) error { return do() })
	if err == nil || err.Error() != "one\nthree" {
		t.Error(err)
	}
	if err := Each(nil, func(int) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}
