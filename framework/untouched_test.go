package framework

import (
	"errors"
	"testing"
)

func TestUntouched(t *testing.T) {
	err := Untouched{errors.ErrUnsupported}
	if !errors.Is(err, ErrNothingDone) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v is not what it should be", err)
	}
}
