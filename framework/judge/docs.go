package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
)

// Names returns the names of the judges that a check may name, sorted: the built-in ones
// and the caller's own.
func Names(own ...Judge) []string {
	var names []string
	for _, d := range judges.Nameable() {
		names = append(names, d.Name)
	}
	for _, j := range own {
		names = append(names, j.Name)
	}
	slices.Sort(names)
	return names
}

// Docs describes every judge: first those that a check may name, then those that apply to every
// record.
func Docs() []Doc {
	var docs []Doc
	for _, d := range judges.Nameable() {
		docs = append(docs, d.Doc)
	}
	return append(docs, harnessDoc)
}
