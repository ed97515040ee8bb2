package reports

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// summaryLimit is GitHub's limit for a step's summary, in bytes.
const summaryLimit = 1 << 20

// longestLine is how many bytes of a line a summary keeps that exceeds the limit even without
// evidence.
const longestLine = 2000

// renderMarkdown writes the summary for a CI job's page, without the evidence if it would exceed
// the limit, and shortened if it would exceed it even then.
func renderMarkdown(in input) ([]byte, error) {
	for _, evidence := range []bool{true, false} {
		if text := markdown(in, evidence); len(text) <= summaryLimit {
			return text, nil
		}
	}
	short := *in.Results
	short.Requirements, short.Checks = worstFirst(in.Requirements), worstFirst(in.Checks)
	in.Results = &short
	return shorten(markdown(in, false)), nil
}

// shorten cuts a page to the limit: the ends of long lines, then the last lines. Below the heading
// it says what was left out.
func shorten(page []byte) []byte {
	lines := slices.Collect(bytes.Lines(page))
	const noteLength = 200
	kept, size, cut := 0, noteLength, 0
	for i, line := range lines {
		if len(line) > longestLine {
			line = cutLine(line)
			lines[i] = line
			cut++
		}
		if size += len(line); size > summaryLimit {
			break
		}
		kept++
	}
	var b bytes.Buffer
	b.Write(lines[0])
	fmt.Fprintf(&b, "\n> Shortened to %d KiB. Left out, and in %s: the evidence, the ends of %s and the last %s.\n",
		summaryLimit>>10, HTMLFile, Plural(cut, "long line"), Plural(len(lines)-kept, "line"))
	for _, line := range lines[1:kept] {
		b.Write(line)
	}
	return b.Bytes()
}

// cutLine returns the begin of a line, up to a space if there is one, so that no escape is torn.
// A row of a table that lacks cells is still one.
func cutLine(line []byte) []byte {
	line = line[:longestLine]
	if space := bytes.LastIndexByte(line, ' '); space > 0 {
		line = line[:space]
	}
	line = bytes.ToValidUTF8(bytes.TrimRight(line, "\\"), nil)
	return append(bytes.Clone(line), " …\n"...)
}

func markdown(in input, evidence bool) []byte {
	var b bytes.Buffer
	run := in.Run
	fmt.Fprintf(&b, "# holdfast: %s\n\n", in.Verdict)
	if run.Certificate != nil {
		fmt.Fprintf(&b, "%s\n\n", mdText(in.Headline()))
		for _, one := range run.Certificate.Open {
			fmt.Fprintf(&b, "- %s\n", mdText(one))
		}
		if len(run.Certificate.Open) > 0 {
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "%s: %s. Kubernetes %s, etcd %s, provider %s, %s, seed %d.\n\n",
		Plural(len(in.Requirements), "requirement"), tally(in.Requirements),
		mdText(run.Versions.Kubernetes), mdText(run.Versions.Etcd), mdText(run.Provider),
		Plural(len(run.Nodes), "control-plane node"), run.Seed)
	if run.Problem != "" {
		fmt.Fprintf(&b, "> **The run had a problem:** %s\n\n", mdText(run.Problem))
	}
	mdTable(&b, in.Requirements)
	if run.NotJudged != "" {
		fmt.Fprintf(&b, "\n%s\n", mdText(run.NotJudged))
	}
	if len(in.Checks) > 0 {
		b.WriteString("\n## The harness itself\n\n")
		mdTable(&b, in.Checks)
	}
	if evidence {
		mdDetails(&b, in)
	} else {
		fmt.Fprintf(&b, "\nThe evidence is in %s.\n", HTMLFile)
	}
	mdTimes(&b, run)

	b.WriteString("\n## Run\n\n| | |\n|---|---|\n")
	for _, f := range runFacts(run) {
		fmt.Fprintf(&b, "| %s | %s |\n", f.Name, mdText(f.Value))
	}
	return b.Bytes()
}

func mdTable(b *bytes.Buffer, reqs []Requirement) {
	b.WriteString("| | Requirement | Level | Verdict | Bound | Measured | Finding |\n|---|---|---|---|---|---|---|\n")
	for _, r := range reqs {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			displayOf(r.Verdict).icon, mdText(r.ID), r.Level, string(r.Verdict)+byDesign(r), mdText(boundText(r.Bound)), mdText(r.Measured), mdText(r.Sentence))
	}
}

func mdDetails(b *bytes.Buffer, in input) {
	first := true
	for _, r := range in.Results.Results {
		if r.Verdict == judge.Pass || r.Verdict == judge.NotApplicable || len(r.Evidence) == 0 {
			continue
		}
		if first {
			b.WriteString("\n## Evidence\n")
			first = false
		}
		fmt.Fprintf(b, "\n**%s** in %s: %s\n\n", mdText(r.Requirement), mdText(r.Scenario), mdText(r.Sentence))
		if inputs := strings.Join(inputTexts(r.Bound), ", "); inputs != "" {
			fmt.Fprintf(b, "- bound: %s, with %s\n", mdText(boundText(r.Bound)), mdText(inputs))
		}
		for _, e := range r.Evidence {
			fmt.Fprintf(b, "- %s\n", mdText(e))
		}
	}
}

func mdTimes(b *bytes.Buffer, run Run) {
	rows := timeRows(run)
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Where the time went\n\n%s.\n\n| | Cluster | Time | Waiting | Work | Overhead |\n|---|---|---|---|---|---|\n", mdText(timeText(run)))
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", mdText(r.What), mdText(r.Cluster), r.Total, r.Waiting, r.Work, r.Overhead)
	}
}

// mdText escapes text so that it is not parsed as Markdown or HTML, and does not break a table.
func mdText(s string) string {
	return mdEscaper.Replace(OneLine(s))
}

var mdEscaper = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`,
)

// fact is one line of the run info.
type fact struct{ Name, Value string }

func runFacts(run Run) []fact {
	facts := []fact{
		{"Run", run.ID},
		{"Started", run.Started.UTC().Format(time.RFC3339)},
		{"Ended", run.Ended.UTC().Format(time.RFC3339) + " (" + human(run.Ended.Sub(run.Started)) + ")"},
		{"Provider", run.Provider},
		{"Profile", run.Profile},
		{"Seed", fmt.Sprint(run.Seed)},
		{"Kubernetes", run.Versions.Kubernetes},
		{"etcd", run.Versions.Etcd},
		{"kwok", run.Versions.Kwok},
		{"holdfast", run.Versions.Holdfast},
		{"Machine", machineText(run.Machine)},
		{"Settings", settingsText(run)},
	}
	for _, n := range run.Nodes {
		facts = append(facts, fact{n.Name, nodeText(n, run.Versions)})
	}
	facts = append(facts, clusterFacts(run)...)
	facts = append(facts, fact{"Command", strings.Join(run.Command, " ")})
	shown := facts[:0]
	for _, f := range facts {
		if f.Value != "" {
			shown = append(shown, f)
		}
	}
	return shown
}

func machineText(m Machine) string {
	parts := []string{Plural(m.Cores, "core")}
	if m.MemoryBytes > 0 {
		parts = append(parts, number(float64(m.MemoryBytes)/(1<<30), 1)+" GiB")
	}
	if m.OS != "" || m.Arch != "" {
		parts = append(parts, strings.Trim(m.OS+"/"+m.Arch, "/"))
	}
	if m.Kernel != "" {
		parts = append(parts, m.Kernel)
	}
	return strings.Join(parts, ", ")
}

// nodeText returns a node's address, and its versions that differ from the run's.
func nodeText(n Node, common Versions) string {
	text := n.Address
	for _, component := range sortedKeys(n.Versions) {
		v := n.Versions[component]
		if v != common.Kubernetes && v != common.Etcd {
			text += ", " + component + " " + v
		}
	}
	return text
}
