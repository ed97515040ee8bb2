package suites

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeCluster is a cluster that nothing is asked of.
type fakeCluster struct{ framework.Cluster }

func TestShared(t *testing.T) {
	made, closed := 0, 0
	var problem error
	s := &shared{env: &Env{
		Cluster: func(context.Context) (framework.Cluster, error) {
			if problem != nil {
				return nil, problem
			}
			made++
			return fakeCluster{}, nil
		},
		Close: func(context.Context) error { closed++; return nil },
	}}
	want := func(wantMade, wantClosed int) {
		t.Helper()
		if made != wantMade || closed != wantClosed || (s.cluster != nil) != (made > closed) {
			t.Errorf("made %d, closed %d, has one: %t; want %d and %d", made, closed, s.cluster != nil, wantMade, wantClosed)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.close(t.Context()))
	want(0, 0)
	check(s.make(t.Context()))
	check(s.make(t.Context()))
	want(1, 0)
	check(s.close(t.Context())) // it was not steady
	check(s.close(t.Context()))
	want(1, 1)
	check(s.make(t.Context()))
	want(2, 1)
	check(s.close(t.Context()))
	problem = errors.New("no room")
	if err := s.make(t.Context()); !errors.Is(err, problem) || !s.broken {
		t.Errorf("%v, broken: %t", err, s.broken)
	}
	want(2, 2)
}
