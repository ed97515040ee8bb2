package framework

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Map calls all functions before it waits for one, and returns every result in order.
func TestMap(t *testing.T) {
	for _, test := range []struct {
		items []int
		want  []string
	}{
		{nil, []string{}},
		{[]int{7}, []string{"7"}},
		{[]int{3, 1, 2, 1}, []string{"3", "1", "2", "1"}},
	} {
		var called sync.WaitGroup
		called.Add(len(test.items))
		got := Map(test.items, func(n int) string {
			called.Done()
			called.Wait()
			return strconv.Itoa(n)
		})
		if got == nil || !slices.Equal(got, test.want) {
			t.Errorf("%v: %#v, want %#v", test.items, got, test.want)
		}
	}
}

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
