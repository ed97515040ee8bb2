package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Requirements() {
		if seen[r.ID] {
			t.Errorf("%s stands twice", r.ID)
		}
		seen[r.ID] = true
		if !strings.HasPrefix(r.ID, "HA-"+r.Area+"-") || r.Text == "" || r.Source == "" {
			t.Errorf("%+v is not complete", r)
		}
		switch r.Level {
		case "MUST", "SHOULD", "INFO":
		default:
			t.Errorf("%s: level %q", r.ID, r.Level)
		}
	}
	if len(seen) < 96 {
		t.Errorf("%d requirements; none of the 96 may go", len(seen))
	}
}

// The requirements that the first scenarios must settle.
func TestSettled(t *testing.T) {
	settled := map[string]bool{}
	for _, s := range All() {
		for _, r := range s.Spec.Requirements {
			if _, ok := RequirementByID(r.ID); !ok {
				t.Errorf("%s settles %s, which the catalogue does not have", s.Metadata.Name, r.ID)
			}
			if s.In("core") {
				settled[r.ID] = true
			}
		}
	}
	for _, id := range strings.Fields(`HA-TOP-001 HA-TOP-002 HA-QR-001 HA-QR-002 HA-QR-003 HA-QR-005 HA-QR-009
		HA-EP-001 HA-EP-003 HA-EP-006 HA-LE-001 HA-LE-002 HA-CL-003`) {
		if !settled[id] {
			t.Errorf("no scenario of profile core settles %s", id)
		}
	}
}

func TestScenarios(t *testing.T) {
	for _, s := range All() {
		if _, err := os.Stat(s.Metadata.Name + ".yaml"); err != nil {
			t.Errorf("scenario %s is in a file of another name", s.Metadata.Name)
		}
		if s.In("smoke") && !s.In("core") || s.In("core") && !s.In("full") {
			t.Errorf("%s: profiles %v: each profile holds the smaller ones", s.Metadata.Name, s.Spec.Profiles)
		}
	}
	if first := All()[0].Metadata.Name; first != "steady" {
		t.Errorf("the first scenario is %s", first)
	}
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		// The first line says what the error must hold.
		first, _, _ := strings.Cut(string(b), "\n")
		want := strings.TrimPrefix(first, "# error: ")
		if _, err := Load(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", f, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range All() {
		b, err := files.ReadFile(s.Metadata.Name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := Parse("fuzz", data); err == nil && s.Metadata.Name == "" {
			t.Error("a scenario without a name was accepted")
		}
	})
}
