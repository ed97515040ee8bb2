package kind

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pods makes a directory of logs as kubelets do, and returns what writes one.
func pods(t *testing.T) (dir string, write func(start, text string)) {
	t.Helper()
	dir = t.TempDir()
	container := filepath.Join(dir, "kube-system_etcd-n_1", "etcd")
	if err := os.MkdirAll(container, 0o755); err != nil {
		t.Fatal(err)
	}
	age := time.Now().Add(-time.Hour)
	return dir, func(start, text string) {
		t.Helper()
		file := filepath.Join(container, start+".log")
		if err := os.WriteFile(file, []byte("2026-01-02T03:04:05.6Z stderr F "+text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		age = age.Add(time.Minute)
		if err := os.Chtimes(file, age, age); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogScript(t *testing.T) {
	dir, write := pods(t)
	run := func(component string) (string, int) {
		t.Helper()
		out, err := exec.Command("sh", "-c", strings.ReplaceAll(logScript(component, false), podLogs, dir)).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return string(out), exit.ExitCode()
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(out), 0
	}
	if out, code := run("etcd"); out != "" || code != noLog {
		t.Errorf("without a log: %q, exit code %d", out, code)
	}
	write("9", "first stderr F")
	write("10", "second") // which sorts before it
	if out, code := run("etcd"); out != "first stderr F\nsecond\n" || code != 0 {
		t.Errorf("%q, exit code %d", out, code)
	}
	for _, bad := range []string{"", "a b", "$(true)", "../etcd", "-x", "a;b"} {
		if logName.MatchString(bad) {
			t.Errorf("%q goes into a script", bad)
		}
	}
}

// Following shows what a container writes that was started again, and ends, with all
// that it started, when its input does.
func TestLogScriptFollows(t *testing.T) {
	dir, write := pods(t)
	write("0", "first")
	cmd := exec.Command("setsid", "--wait", "sh", "-c", strings.ReplaceAll(logScript("etcd", true), podLogs, dir))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Skipf("setsid of util-linux is needed: %v", err)
	}
	lines := make(chan string, 10)
	go func() {
		var got bytes.Buffer
		b := make([]byte, 1)
		for {
			if _, err := r.Read(b); err != nil {
				close(lines)
				return
			}
			if got.Write(b); b[0] == '\n' {
				lines <- got.String()
				got.Reset()
			}
		}
	}()
	want := func(text string) {
		t.Helper()
		select {
		case line := <-lines:
			if line != text+"\n" {
				t.Fatalf("%q, want %q", line, text)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no %q", text)
		}
	}
	want("first")
	write("1", "second")
	want("second")
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	// Wait returns when nothing holds its standard output any more.
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); _ = w.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
}
