package reports

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// History shows several runs side by side, in the order of their times.
type History struct {
	Runs []HistoryRun `json:"runs"`
	// Rows are the requirements that any of the runs judged, in order of ID.
	Rows []HistoryRow `json:"rows"`
}

// HistoryRun is one run of a history.
type HistoryRun struct {
	ID       string        `json:"id"`
	Dir      string        `json:"dir"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took"`
	Verdict  judge.Verdict `json:"verdict"`
	Versions Versions      `json:"versions"`
	Provider string        `json:"provider"`
	Profile  string        `json:"profile"`
}

// HistoryRow is a requirement over the runs.
type HistoryRow struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Level string `json:"level"`
	// Points are one for each run; one without a verdict stands for a run that did not judge it.
	Points []HistoryPoint `json:"points"`
}

// HistoryPoint is what a run found on a requirement.
type HistoryPoint struct {
	Verdict  judge.Verdict  `json:"verdict,omitempty"`
	Measured *time.Duration `json:"measured,omitempty"`
	Bound    *time.Duration `json:"bound,omitempty"`
	Sentence string         `json:"sentence,omitempty"`
}

// NewHistory makes a history from the results in directories.
func NewHistory(results map[string]*Results) *History {
	h := &History{Rows: []HistoryRow{}}
	dirs := slices.SortedFunc(maps.Keys(results), func(a, b string) int {
		return cmp.Or(results[a].Run.Started.Compare(results[b].Run.Started), cmp.Compare(a, b))
	})
	at := map[string]int{}
	for i, dir := range dirs {
		r := results[dir]
		h.Runs = append(h.Runs, HistoryRun{ID: r.Run.ID, Dir: dir, Started: r.Run.Started, Took: r.Run.Ended.Sub(r.Run.Started).Round(time.Second),
			Verdict: r.Verdict, Versions: r.Run.Versions, Provider: r.Run.Provider, Profile: r.Run.Profile})
		for _, req := range r.Requirements {
			if _, ok := at[req.ID]; !ok {
				at[req.ID] = len(h.Rows)
				h.Rows = append(h.Rows, HistoryRow{ID: req.ID, Points: make([]HistoryPoint, len(dirs))})
			}
			row := &h.Rows[at[req.ID]]
			row.Title, row.Level = cmp.Or(req.Title, row.Title), req.Level
			p := HistoryPoint{Verdict: req.Verdict, Measured: req.MeasuredDuration, Sentence: req.Sentence}
			if req.Bound != nil {
				p.Bound = &req.Bound.Limit
			}
			row.Points[i] = p
		}
	}
	slices.SortFunc(h.Rows, func(a, b HistoryRow) int { return cmp.Compare(a.ID, b.ID) })
	return h
}

// Changed reports whether the runs have different verdicts on the requirement.
func (r HistoryRow) Changed() bool {
	return slices.ContainsFunc(r.Points, func(p HistoryPoint) bool { return p.Verdict != r.Points[0].Verdict })
}

// Print writes a line for each requirement, with a letter for each run.
func (h *History) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tSTARTED\tTOOK\tKUBERNETES\tVERDICT\tDIRECTORY")
	for _, r := range h.Runs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", OneLine(r.ID), r.Started.UTC().Format("2006-01-02 15:04"), r.Took, OneLine(r.Versions.Kubernetes), r.Verdict, r.Dir)
	}
	fmt.Fprintln(t, "\nREQUIREMENT\tRUNS\tSHORTEST\tLONGEST\tBOUND")
	for _, row := range h.Rows {
		letters := ""
		var least, most, bound string
		var low, high *time.Duration
		for _, p := range row.Points {
			letters += cmp.Or(displays[p.Verdict].letter, " ")
			if p.Measured != nil && (low == nil || *p.Measured < *low) {
				low, least = p.Measured, human(*p.Measured)
			}
			if p.Measured != nil && (high == nil || *p.Measured > *high) {
				high, most = p.Measured, human(*p.Measured)
			}
			if p.Bound != nil {
				bound = human(*p.Bound)
			}
		}
		// Cells without a value are written, too: the table's columns need them.
		fmt.Fprintf(t, "%s\t|%s|\t%s\t%s\t%s\n", OneLine(row.ID), letters, least, most, bound)
	}
	fmt.Fprintln(t, "\n. pass   F fail   ? inconclusive   - not applicable   a space if a run did not judge it; the earliest run first")
	if err := t.Flush(); err != nil {
		return fmt.Errorf("failed to print the history: %w", err)
	}
	return nil
}

//go:embed history.html.tmpl
var historyTemplate string

// multiple is the small chart of a requirement over the runs: 100 wide for each side of the view
// box, with the bound at the upper edge.
type multiple struct {
	HistoryRow
	Marks []point
	// Line has the measured shares of the bound, as the points of a polyline.
	Line          string
	Worst, Latest string
}

// point is a run in the chart.
type point struct {
	X, Y  float64
	Class string
	Title string
}

// HTML writes the history as one page that opens offline: a small chart for each requirement, the
// changed ones first.
func (h *History) HTML() ([]byte, error) {
	t, err := template.New("history").Parse(historyTemplate)
	if err != nil {
		return nil, err
	}
	rows := slices.Clone(h.Rows)
	slices.SortStableFunc(rows, func(a, b HistoryRow) int { return cmp.Compare(oneIf(b.Changed()), oneIf(a.Changed())) })
	page := struct {
		*History
		Multiples []multiple
	}{History: h}
	for _, row := range rows {
		page.Multiples = append(page.Multiples, h.multiple(row))
	}
	var out bytes.Buffer
	err = t.Execute(&out, page)
	return out.Bytes(), err
}

func (h *History) multiple(row HistoryRow) multiple {
	m := multiple{HistoryRow: row}
	worst := -1.0
	var line []string
	for i, p := range row.Points {
		if p.Verdict == "" {
			continue
		}
		x, y := 50.0, 38.0
		if len(row.Points) > 1 {
			x = 3 + 94*float64(i)/float64(len(row.Points)-1)
		}
		title := fmt.Sprintf("%s, %s: %s", h.Runs[i].Started.UTC().Format("2006-01-02 15:04"), p.Verdict, p.Sentence)
		if p.Measured != nil && p.Bound != nil && *p.Bound > 0 {
			share := float64(*p.Measured) / float64(*p.Bound)
			y = 38 - 34*min(share, 1.1)
			line = append(line, fmt.Sprintf("%.1f,%.1f", x, y))
			text := fmt.Sprintf("%s of %s", human(*p.Measured), human(*p.Bound))
			if share > worst {
				worst, m.Worst = share, text
			}
			m.Latest = text
		}
		m.Marks = append(m.Marks, point{x, y, strings.ReplaceAll(string(p.Verdict), " ", "-"), title})
	}
	m.Line = strings.Join(line, " ")
	return m
}
