// Command profile writes the conformance profile, as the catalogue gives it, to a file.
package main

import (
	"fmt"
	"os"

	"github.com/holdfast-ha/holdfast/suites/certify"
)

func main() {
	text, err := certify.EmptyChecklist().YAML("Kubernetes HA conformance checklist, generated from holdfast's catalogue (go generate ./...).\n" +
		"Fill in the metadata; holdfast certify pr fills in the rest from a bundle.\nSee docs/conformance.md.")
	if err == nil && len(os.Args) == 2 {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
