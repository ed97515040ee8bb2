package scenarios

import (
	_ "embed"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed requirements.yaml
var requirementsFile []byte

// Requirement is one row of the catalogue.
type Requirement struct {
	// ID is stable; it is never used for another requirement.
	ID string `json:"id"`
	// Area is the middle part of the ID.
	Area string `json:"area"`
	// Level is MUST, SHOULD or INFO.
	Level string `json:"level"`
	// Fault is what is done to the cluster; empty where the text says it.
	Fault string `json:"fault,omitempty"`
	// Text is what a cluster owes, with its bound.
	Text string `json:"text"`
	// Source is the design document that the row comes from.
	Source string `json:"source"`
	// Why says why it matters, ByHand how to see it without holdfast, and Breaks what
	// commonly breaks it. Rows that no scenario settles yet have none of them.
	Why    string `json:"why,omitempty"`
	ByHand string `json:"byHand,omitempty"`
	Breaks string `json:"breaks,omitempty"`
}

// Invariant reports whether judges of every run settle the requirement in every scenario (see
// judge.Doc).
func (r Requirement) Invariant() bool { return r.Area == "INV" }

type requirementList struct {
	APIVersion   string        `json:"apiVersion"`
	Kind         string        `json:"kind"`
	Requirements []Requirement `json:"requirements"`
}

// embedded decodes a file that is part of the program and tested with it.
func embedded[T any](data []byte) (v T) {
	if err := yaml.UnmarshalStrict(data, &v); err != nil {
		panic(err)
	}
	return v
}

var requirements = sync.OnceValue(func() []Requirement {
	return embedded[requirementList](requirementsFile).Requirements
})

// Requirements returns the catalogue in its own order. Callers must not modify it.
func Requirements() []Requirement { return requirements() }

// RequirementByID finds a requirement.
func RequirementByID(id string) (Requirement, bool) {
	for _, r := range requirements() {
		if r.ID == id {
			return r, true
		}
	}
	return Requirement{}, false
}

// SettledBy returns the scenarios that settle a requirement: all of them for an invariant,
// otherwise those that name it.
func SettledBy(r Requirement) []*Scenario {
	var settle []*Scenario
	for _, s := range All() {
		if r.Invariant() || slices.ContainsFunc(s.Spec.Requirements, func(named Settles) bool { return named.ID == r.ID }) {
			settle = append(settle, s)
		}
	}
	return settle
}

// Titles returns the requirements' texts by ID.
func Titles() map[string]string {
	titles := map[string]string{}
	for _, r := range requirements() {
		titles[r.ID] = r.Text
	}
	return titles
}
