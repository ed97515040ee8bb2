package judge

import "github.com/holdfast-ha/holdfast/framework/judge/internal/judges"

// named returns a built-in judge.
func named(name string) judges.Definition {
	d, err := find(name, nil)
	if err != nil {
		panic(err)
	}
	return d
}
