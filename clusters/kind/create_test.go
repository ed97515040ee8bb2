package kind

import (
	"errors"
	"testing"
)

// kind is asked again where a port was taken that it chose, with what it made removed.
func TestWithPorts(t *testing.T) {
	taken := errors.New("driver failed programming external connectivity: Bind for 127.0.0.1:37833 failed: port is already allocated")
	bound := errors.New("listen tcp4 127.0.0.1:37833: bind: address already in use")
	other := errors.New("no such image")
	stuck := errors.New("a container that cannot be removed")
	for _, test := range []struct {
		name    string
		creates []error
		clear   error
		want    error
		clears  int
	}{
		{"at once", []error{nil}, nil, nil, 0},
		{"the third time", []error{taken, bound, nil}, nil, nil, 2},
		{"never", []error{taken, taken, taken}, nil, taken, 2},
		{"another error", []error{other}, nil, other, 0},
		{"another error then", []error{taken, other}, nil, other, 1},
		{"not cleared", []error{taken}, stuck, stuck, 1},
	} {
		created, clears := 0, 0
		err := withPorts(func() error {
			created++
			return test.creates[created-1]
		}, func() error {
			clears++
			return test.clear
		})
		if !errors.Is(err, test.want) || created != len(test.creates) || clears != test.clears {
			t.Errorf("%s: %v after %d creations and %d removals", test.name, err, created, clears)
		}
	}
}

func TestRemoveContainers(t *testing.T) {
	dir := fakeDocker(t, `[ "$1" = rm ] || { echo x-worker; echo x-control-plane; }`)
	if err := scaled().removeContainers(t.Context()); err != nil {
		t.Error(err)
	}
	wantCalls(t, dir, "label=io.x-k8s.kind.cluster=x", "rm --force --volumes x-worker x-control-plane\n")
}
