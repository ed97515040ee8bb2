package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func shell(script string) Command { return Command{Name: "sh", Args: []string{"-c", script}} }

func TestOutput(t *testing.T) {
	c := shell(`read line; echo "$line $WORD"; echo aside >&2; printf last`)
	c.Stdin, c.Env = strings.NewReader("hello\n"), []string{"WORD=world"}
	var lines []string
	c.Lines = func(line string) { lines = append(lines, line) }
	got, err := c.Run(t.Context())
	if err != nil || got != "hello world\nlast" {
		t.Errorf("output = %q, %v", got, err)
	}
	slices.Sort(lines) // the two streams come in any order
	if want := []string{"aside", "hello world"}; !slices.Equal(lines, want) {
		t.Errorf("lines = %q, want %q", lines, want)
	}

	var b bytes.Buffer
	c = shell("echo elsewhere")
	c.Stdout = &b
	if got, err := c.Run(t.Context()); err != nil || got != "" || b.String() != "elsewhere\n" {
		t.Errorf("output = %q, elsewhere %q, %v", got, b.String(), err)
	}
}

func TestFailure(t *testing.T) {
	_, err := shell(`for i in $(seq 50); do echo "line $i"; done; printf 'no space left' >&2; exit 7`).Run(t.Context())
	if !errors.As(err, new(*Error)) {
		t.Fatalf("error = %v", err)
	}
	for _, want := range []string{"sh -c 'for i in", "exit status 7", "\n\t...\n\tline 39", "\n\tline 50", "\n\tno space left"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "line 20\n") {
		t.Errorf("the error has all of the output: %v", err)
	}

	c := shell("pwd; echo downloading; exit 1")
	c.Dir, c.Noise = "/", func(line string) bool { return line == "downloading" }
	if _, err := c.Run(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "exit status 1\n\t/") {
		t.Errorf("the error of a failure in / is %v", err)
	}
}

func TestMissing(t *testing.T) {
	_, err := Command{Name: "no-such-program", Package: "some-package"}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no-such-program is not in PATH: install it (on Debian: apt-get install some-package)") {
		t.Errorf("error = %v", err)
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("text"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (Command{Name: file}).Run(t.Context()); err == nil || strings.Contains(err.Error(), "PATH") {
		t.Errorf("error of a file that is no program = %v", err)
	}
}

// The program's children exit with it, and the cause is reported.
func TestStops(t *testing.T) {
	cause := errors.New("nobody answered")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	c := shell(`sleep 1000 & echo started; wait`)
	c.Lines = func(string) { cancel(cause) }
	start := time.Now()
	if _, err := c.Run(ctx); !errors.Is(err, cause) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("error = %v", err)
	}
	// The child holds the streams: if it had not exited, Run would have waited.
	if took := time.Since(start); took >= patience {
		t.Errorf("it took %v", took)
	}

	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	var lines []string
	c = shell(`trap 'echo interrupted; exit 1' INT; echo started; while :; do sleep 0.1; done`)
	c.Interrupt, c.Lines = true, func(line string) { lines = append(lines, line); cancel(cause) }
	if _, err := c.Run(ctx); !errors.Is(err, cause) || !slices.Equal(lines, []string{"started", "interrupted"}) {
		t.Errorf("error = %v after %q", err, lines)
	}
}

func TestString(t *testing.T) {
	for want, c := range map[string]Command{
		"docker version":                         {Name: "docker", Args: []string{"version"}},
		`sh -c 'echo "a b"' ''`:                  {Name: "sh", Args: []string{"-c", `echo "a b"`, ""}},
		`sh -c 'it'"'"'s'`:                       {Name: "sh", Args: []string{"-c", "it's"}},
		"x " + strings.Repeat("y", 198) + " ...": {Name: "x", Args: []string{strings.Repeat("y", 300)}},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
