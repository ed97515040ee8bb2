// Package scenarios is the catalogue as data: the requirements, and the experiments that settle
// them, one YAML file each. Users' own files are loaded the same way; docs/scenarios.md describes
// how to write one.
package scenarios
