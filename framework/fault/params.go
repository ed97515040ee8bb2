package fault

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The functions below read one parameter each. Their errors name the fault, the
// parameter, what was given and what is allowed. An empty value is the default.

func badParam(f Fault, p Params, name, format string, args ...any) error {
	return fmt.Errorf("fault %s: parameter %s=%q: it must be %s", f.Name(), name, p.Values[name], fmt.Sprintf(format, args...))
}

// boolParam returns a parameter that is "true" or "false"; unset is false.
func boolParam(f Fault, p Params, name string) (bool, error) {
	switch p.Values[name] {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, badParam(f, p, name, "true or false")
}

// durationParam returns a duration from low to high, such as 20ms.
func durationParam(f Fault, p Params, name string, unset, low, high time.Duration) (time.Duration, error) {
	v := p.Values[name]
	if v == "" {
		return unset, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < low || d > high {
		return 0, badParam(f, p, name, "a duration from %s to %s, such as 20ms", low, high)
	}
	return d, nil
}

// shareParam returns a share from 0 to 1, written as 10% or 0.1.
func shareParam(f Fault, p Params, name string, unset float64) (float64, error) {
	v := p.Values[name]
	if v == "" {
		return unset, nil
	}
	number, percent := strings.CutSuffix(v, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || math.IsNaN(share) || share < 0 || share > 1 {
		return 0, badParam(f, p, name, "a share from 0%% to 100%%, such as 10%% or 0.1")
	}
	return share, nil
}

// intParam returns a whole number from low to high.
func intParam(f Fault, p Params, name string, unset, low, high int) (int, error) {
	v := p.Values[name]
	if v == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return 0, badParam(f, p, name, "a whole number from %d to %d", low, high)
	}
	return n, nil
}

// sizeParam returns a number of bytes, or bits, from low to high, written as
// Kubernetes writes quantities: 512Mi, 10M, 4096.
func sizeParam(f Fault, p Params, name string, unset, low, high int64) (int64, error) {
	v := p.Values[name]
	if v == "" {
		return unset, nil
	}
	q, err := resource.ParseQuantity(v)
	n := q.Value()
	if err != nil || n < low || n > high {
		return 0, badParam(f, p, name, "a size from %s to %s, such as 10M or 512Ki",
			resource.NewQuantity(low, resource.BinarySI), resource.NewQuantity(high, resource.BinarySI))
	}
	return n, nil
}

// choiceParam returns one of some words; unset is the first.
func choiceParam(f Fault, p Params, name string, choices ...string) (string, error) {
	v := p.Values[name]
	if v == "" {
		return choices[0], nil
	}
	if !slices.Contains(choices, v) {
		return "", badParam(f, p, name, "one of %s", strings.Join(choices, ", "))
	}
	return v, nil
}
