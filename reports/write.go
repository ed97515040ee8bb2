package reports

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// HTMLFile is the name of the HTML report in a results directory.
const HTMLFile = "report.html"

// input is what every renderer reads.
type input struct {
	*Results
	// records are the records by scenario; one that could not be read is missing.
	records map[string]*record.Run
	// dir is where the files are written to; empty if not known.
	dir string
}

// file is one rendered file of the results directory.
type file struct {
	name string
	data []byte
}

// Write renders the verdicts on a run into dir, which it creates if needed: report.html,
// summary.md, junit.xml, metrics.prom, sonobuoy_results.yaml and results.json. Records are by
// scenario, and some may be missing; titles are requirement titles by ID and may be nil.
//
// Each file is written atomically. All are written under temporary names before the first is
// renamed, so that a full disk leaves the files of an earlier rendering unchanged.
func Write(dir string, run Run, results []judge.Result, records map[string]*record.Run, titles map[string]string) error {
	files, err := render(input{New(run, results, titles), records, dir})
	if err != nil {
		return fmt.Errorf("failed to render the results of run %s: %w", run.ID, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return writeError(dir, err)
	}
	return place(dir, files)
}

// JSON returns the text of ResultsFile.
func JSON(r *Results) ([]byte, error) { return renderJSON(input{Results: r}) }

func render(in input) ([]file, error) {
	renderers := []struct {
		name   string
		render func(input) ([]byte, error)
	}{
		{HTMLFile, renderHTML},
		{"summary.md", renderMarkdown},
		{"junit.xml", renderJUnit},
		{"metrics.prom", renderMetrics},
		{SonobuoyFile, renderSonobuoy},
		// Last, so that a reader of a new results.json finds the other files beside it.
		{ResultsFile, renderJSON},
	}
	var files []file
	for _, r := range renderers {
		data, err := r.render(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		files = append(files, file{r.name, data})
	}
	return files, nil
}

func renderJSON(in input) ([]byte, error) {
	var buf bytes.Buffer
	err := WriteJSON(&buf, in.Results)
	return buf.Bytes(), err
}

func place(dir string, files []file) error {
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t) // fails after a rename
		}
	}()
	for _, f := range files {
		temp, err := os.CreateTemp(dir, "."+f.name+".*.tmp")
		if err != nil {
			return writeError(dir, err)
		}
		temps = append(temps, temp.Name())
		if err := fill(temp, f.data); err != nil {
			return writeError(dir, err)
		}
	}
	for i, f := range files {
		if err := os.Rename(temps[i], filepath.Join(dir, f.name)); err != nil {
			return writeError(dir, err)
		}
	}
	return nil
}

func fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

// writeError adds advice to err, which contains the path.
func writeError(dir string, err error) error {
	hint := "choose another directory with --out"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = "the disk is full: free some space there or choose a directory elsewhere with --out; the record is kept and holdfast report renders it again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		hint = "this user may not write there: " + hint
	}
	return fmt.Errorf("failed to write results to %s: %w (%s)", dir, err, hint)
}
