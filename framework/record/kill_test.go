package record

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// killedDir names the directory that TestKilled gives its child.
const killedDir = "HOLDFAST_RECORD_KILLED_DIR"

// A harness killed with SIGKILL at any moment leaves a record of everything older than 200 ms.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		appendUntilKilled(dir)
	}
	for range 6 {
		moment := 20*time.Millisecond + rand.N(800*time.Millisecond)
		t.Run("after "+moment.String(), func(t *testing.T) {
			t.Parallel()
			killed(t, moment)
		})
	}
}

// appendUntilKilled appends an entry per millisecond. It reports on standard output when it did,
// and how late it was at most: on a busy machine it waits for a processor, and so does the code
// under test.
func appendUntilKilled(dir string) {
	w, err := Create(dir, testMeta())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	late := Nanos(0)
	for i, last := 0, w.Now(); ; i++ {
		time.Sleep(time.Millisecond)
		late, last = max(late, w.Now()-last), w.Now()
		if err := w.Append(KindOp, Op{Client: "c", Key: fmt.Sprint("k", i%20), Value: fmt.Sprint(i), Call: last, Outcome: OK}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Printf("%d %d %d\n", i, w.Now(), late)
	}
}

func killed(t *testing.T, moment time.Duration) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()

	said := bufio.NewScanner(out)
	if !said.Scan() { // it has started
		t.Fatal("the child said nothing")
	}
	timer := time.AfterFunc(moment, func() { cmd.Process.Kill() })
	defer timer.Stop()
	// By number of the entry, when Append had returned.
	var appended []Nanos
	late := Nanos(0)
	for more := true; more; more = said.Scan() {
		var i int
		var at Nanos
		if _, err := fmt.Sscanf(said.Text(), "%d %d %d", &i, &at, &late); err != nil || i != len(appended) {
			t.Fatalf("the child said %q: %v", said.Text(), err)
		}
		appended = append(appended, at)
	}

	run, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if run.Complete || !strings.Contains(run.Problem, "the run was cut short") {
		t.Errorf("complete %v, problem %q", run.Complete, run.Problem)
	}
	for i, op := range run.Ops {
		if op.V.Value != fmt.Sprint(i) {
			t.Fatalf("entry %d is %q: an earlier one is lost", i, op.V.Value)
		}
	}
	end := appended[len(appended)-1]
	if lost := len(run.Ops); lost < len(appended) {
		age := end - appended[lost]
		t.Logf("%d of %d entries lost, the oldest %s before the end; late by %s", len(appended)-lost, len(appended), time.Duration(age), time.Duration(late))
		if age > Nanos(200*time.Millisecond)+2*late {
			t.Errorf("an entry that was appended %s before the end is lost", time.Duration(age))
		}
	}
}
