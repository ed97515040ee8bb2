package scenarios

import (
	_ "embed"
	"slices"
	"sync"
)

//go:embed requirements.yaml
var requirementsFile []byte

// Requirement is one row of the catalogue.
type Requirement struct {
	// ID is stable; it is never used for another requirement.
	ID string `yaml:"id" json:"id"`
	// Area is the middle part of the ID.
	Area string `yaml:"area" json:"area"`
	// Level is MUST, SHOULD or INFO.
	Level string `yaml:"level" json:"level"`
	// Fault is what is done to the cluster; empty where the text says it.
	Fault string `yaml:"fault" json:"fault,omitempty"`
	// Text is what a cluster owes, with its bound.
	Text string `yaml:"text" json:"text"`
	// Source is the design document that the row comes from.
	Source string `yaml:"source" json:"source"`
	// Why says why it matters, ByHand how to see it without holdfast, and Breaks what
	// commonly breaks it. Rows that no scenario settles yet have none of them.
	Why    string `yaml:"why" json:"why,omitempty"`
	ByHand string `yaml:"byHand" json:"byHand,omitempty"`
	Breaks string `yaml:"breaks" json:"breaks,omitempty"`
}

// Invariant reports whether judges of every run settle the requirement in every scenario (see
// judge.Doc).
func (r Requirement) Invariant() bool { return r.Area == "INV" }

type requirementList struct {
	APIVersion   string        `yaml:"apiVersion"`
	Kind         string        `yaml:"kind"`
	Requirements []Requirement `yaml:"requirements"`
}

var requirements = sync.OnceValue(func() []Requirement {
	return mustDecode[requirementList](requirementsFile).Requirements
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
