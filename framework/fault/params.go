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

// Param is a parameter of a fault.
type Param struct {
	// Name is its name on the command line and in scenario files.
	Name string
	// Doc describes it, with its unit.
	Doc string
	// Allowed describes the allowed values, such as "true or false".
	Allowed string
	// Default describes what applies if it is not given.
	Default string
	// Parse reads a value, "" being the default, and reports whether it is allowed; nil
	// accepts any text.
	Parse func(value string) (any, bool)

	// parties are named or counted by its values, so that they depend on the cluster.
	parties bool
	// choices are all allowed values, if String can list them.
	choices []string
	// plain says that Allowed adds nothing to Doc.
	plain bool
}

// String describes the parameter.
func (p Param) String() string {
	s := p.Doc
	if last := len(p.choices) - 1; last > 0 {
		return fmt.Sprintf("%s (%s or %s; default %s)", s, strings.Join(p.choices[:last], ", "), p.choices[last], p.Default)
	}
	if p.Allowed != "" && !p.plain {
		s += ": " + p.Allowed
	}
	if p.Default != "" {
		s += "; default " + p.Default
	}
	return s
}

func (p Param) parse(value string) (any, bool) {
	if p.Parse == nil {
		return value, true
	}
	return p.Parse(value)
}

// unless describes what applies if the parameter is not given.
func (p Param) unless(given string) Param {
	p.Default = given
	return p
}

// The functions below return parameters of one type each. An unset one has the value unset.

// textParam takes any text, which the fault itself reads.
func textParam(name, doc string) Param { return Param{Name: name, Doc: doc} }

// partiesParam takes words for parties of the cluster, which the fault itself reads.
func partiesParam(name, doc string) Param { return Param{Name: name, Doc: doc, parties: true} }

func parsed[T any](unset T, parse func(string) (T, bool)) func(string) (any, bool) {
	return func(value string) (any, bool) {
		if value == "" {
			return unset, true
		}
		return parse(value)
	}
}

// boolParam is a bool; doc says what true or false means.
func boolParam(name, doc string, unset bool) Param {
	return Param{Name: name, Doc: doc, Allowed: "true or false", Default: strconv.FormatBool(unset), plain: true,
		Parse: parsed(unset, func(v string) (bool, bool) { return v == "true", v == "true" || v == "false" })}
}

// durationParam is a time.Duration from low to high.
func durationParam(name, doc string, unset, low, high time.Duration) Param {
	return Param{Name: name, Doc: doc, Allowed: fmt.Sprintf("a duration from %s to %s", brief(low), brief(high)), Default: brief(unset),
		Parse: parsed(unset, func(v string) (time.Duration, bool) {
			d, err := time.ParseDuration(v)
			return d, err == nil && d >= low && d <= high
		})}
}

// brief writes a duration without units that are zero: 1m, not 1m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// shareParam is a float64 above 0 and up to 1, written as 10% or 0.1.
func shareParam(name, doc string, unset float64) Param {
	return Param{Name: name, Doc: doc, Allowed: "a share above 0% up to 100%, such as 10% or 0.1", Default: fmt.Sprintf("%g%%", 100*unset),
		Parse: parsed(unset, func(v string) (float64, bool) {
			number, percent := strings.CutSuffix(v, "%")
			share, err := strconv.ParseFloat(number, 64)
			if percent {
				share /= 100
			}
			return share, err == nil && !math.IsNaN(share) && share > 0 && share <= 1
		})}
}

// intParam is an int from low to high.
func intParam(name, doc string, unset, low, high int) Param {
	return Param{Name: name, Doc: doc, Allowed: fmt.Sprintf("a whole number from %d to %d", low, high), Default: strconv.Itoa(unset),
		Parse: parsed(unset, func(v string) (int, bool) {
			n, err := strconv.Atoi(v)
			return n, err == nil && n >= low && n <= high
		})}
}

// sizeParam is an int64, a number of bytes or bits from low to high, written as Kubernetes
// writes quantities: 512Mi, 10M, 4096.
func sizeParam(name, doc string, unset, low, high int64) Param {
	return Param{Name: name, Doc: doc, Allowed: fmt.Sprintf("a size from %s to %s, in a form such as 10M, 512Ki or 4096", quantity(low), quantity(high)), Default: quantity(unset),
		Parse: parsed(unset, func(v string) (int64, bool) {
			q, err := resource.ParseQuantity(v)
			n := q.Value()
			return n, err == nil && n >= low && n <= high
		})}
}

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// choiceParam is a string, one of several words; unset is the first.
func choiceParam(name, doc string, choices ...string) Param {
	return Param{Name: name, Doc: doc, Allowed: "one of " + strings.Join(choices, ", "), Default: choices[0], choices: choices,
		Parse: parsed(choices[0], func(v string) (string, bool) { return v, slices.Contains(choices, v) })}
}
