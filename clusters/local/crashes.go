package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A component that exited crashes times in its first crashTime will do so again: usually its
// arguments are wrong. One that waits in vain for another component exits later.
const (
	crashes   = 3
	crashTime = 20 * time.Second
)

// awaitCrash returns an error when a component of a control-plane node crash-loops from the
// start, nil if none does.
func (c *Cluster) awaitCrash(ctx context.Context) error {
	began := time.Now()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for time.Since(began) < crashTime {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, n := range c.controlPlane() {
			for _, component := range n.Components() {
				p, err := n.Process(ctx, component)
				if err != nil || p.Restarts < crashes || p.CrashLooped || p.Held {
					continue
				}
				log := filepath.Join(c.o.LogDir, n.Name(), string(component)+".log")
				return fmt.Errorf("%s on %s has exited %d times within %s (%s), last with: %s; see %s",
					component, n.Name(), p.Restarts, time.Since(began).Round(time.Second), cmp.Or(p.LastExit, "exit status not known"), lastWords(log), log)
			}
		}
	}
	return nil
}

// complaint is in log lines that say why a program exits.
var complaint = regexp.MustCompile(`(?i)unknown flag|unknown shorthand flag|not defined|invalid|error|fatal|panic`)

// lastWords returns the last line of a log that says why the program exited, else its last
// line.
func lastWords(log string) string {
	data, err := os.ReadFile(log)
	if err != nil {
		return "no log"
	}
	last := "nothing in its log"
	lines := strings.Split(strings.TrimSpace(string(data[max(0, len(data)-1<<16):])), "\n")
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-") {
			last = line
		}
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); complaint.MatchString(line) && !strings.HasPrefix(line, "-") {
			last = line
		}
	}
	return strings.TrimPrefix(last, "Error: ")
}
