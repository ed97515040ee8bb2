package main

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// holdfast accepts each of its command lines in the code blocks of README and docs: the command
// and its flags exist, and the number of arguments is right.
func TestCommandsOfDocs(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(string(data)) {
			seen++
			if err := takes(line); err != nil {
				t.Errorf("%s: %s: %v", page, strings.Join(line, " "), err)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d command lines in %d pages: where are the others?", seen, len(pages))
	}
}

// commandsIn returns the holdfast command lines in the code blocks of a Markdown page.
func commandsIn(page string) (all [][]string) {
	fenced := false
	joined := strings.ReplaceAll(page, "\\\n", " ")
	for lines := bufio.NewScanner(strings.NewReader(joined)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			continue
		}
		for _, command := range shellCommands(line) {
			command = slices.DeleteFunc(command, func(word string) bool { return word == "$" || strings.Contains(word, "=") && command[0] == word })
			if len(command) > 0 && (command[0] == "holdfast" || command[0] == "bin/holdfast") {
				all = append(all, command[1:])
			}
		}
	}
	return all
}

// shellCommands takes a line apart as a shell does, as far as the pages need it: quotes,
// comments, and what stands between commands.
func shellCommands(line string) (all [][]string) {
	var command []string
	var word strings.Builder
	quote, in := rune(0), false
	end := func() {
		if in {
			command = append(command, word.String())
		}
		word.Reset()
		in = false
	}
	next := func() {
		end()
		if len(command) > 0 {
			all = append(all, command)
		}
		command = nil
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == '#' && !in:
			next()
			return all
		case c == ' ' || c == '\t':
			end()
		case strings.ContainsRune("|;&()<>", c):
			next()
		default:
			in = true
			word.WriteRune(c)
		}
	}
	next()
	return all
}

// takes refuses a command line that holdfast would refuse before it looks at values.
func takes(args []string) error {
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.RunE == nil && cmd.HasSubCommands() {
		return nil
	}
	validate := cmd.Args
	if validate == nil {
		validate = cobra.ArbitraryArgs
	}
	return validate(cmd, cmd.Flags().Args())
}

func TestCommandsIn(t *testing.T) {
	got := commandsIn("holdfast x\n```\nmake build\nA=1 bin/holdfast keygen # once\n$ holdfast run \\\n  --seed 1\n```\n")
	want := [][]string{{"keygen"}, {"run", "--seed", "1"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q", got)
	}
}

func TestShellCommands(t *testing.T) {
	got := shellCommands(`A=1 holdfast run -f "my file.yaml" && echo 'a b' | holdfast diff x y # and so on`)
	want := [][]string{{"A=1", "holdfast", "run", "-f", "my file.yaml"}, {"echo", "a b"}, {"holdfast", "diff", "x", "y"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q", got)
	}
}

// Logs, snapshots and plans may contain secrets, so no example of a CI job publishes them.
func TestExamplesPublishNoSecrets(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "ci")
	for name, want := range map[string]string{
		"github-nightly.yaml": "          path: |\n            results\n            !results/logs/**\n            !results/etcd-snapshots/**\n            !results/plan.json\n",
		"prow-nightly.yaml":   `cp results/results.json results/summary.md results/report.html "$ARTIFACTS"`,
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if !strings.Contains(text, want) {
			t.Errorf("%s does not publish exactly %q", name, want)
		}
		for _, published := range []string{"upload-artifact", "$ARTIFACTS/"} {
			if strings.Count(text, published) > 1 {
				t.Errorf("%s publishes more: %s", name, published)
			}
		}
	}
}

// Each screenshot is on a page.
func TestScreenshotsAreShown(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(root, "docs", "img", "*.png"))
	if err != nil || len(all) < 4 {
		t.Fatalf("%v: %v", all, err)
	}
	for _, file := range all {
		if name := "(docs/img/" + filepath.Base(file) + ")"; !strings.Contains(string(readme), name) {
			t.Errorf("README.md has no %s", name)
		}
	}
}
