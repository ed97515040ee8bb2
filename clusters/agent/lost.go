package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// If an agent's state is lost, its script is the only record of what it has to heal: the node's own
// certificates are in no other place. So the script is kept, and run until it succeeds.

// lostScripts is the pattern of the names of such scripts.
func lostScripts(dir string) string { return filepath.Join(dir, "undo-*.sh") }

// lostPatience is how long a start of the agent waits for these scripts, which may wait for a volume
// themselves: what starts components waits for the agent.
const lostPatience = 10 * time.Second

// keepLost puts the script of an agent whose state is lost aside.
func (s *store) keepLost() error {
	dir := filepath.Dir(s.file)
	name := strings.Replace(lostScripts(dir), "*", fmt.Sprint(time.Now().UnixNano()), 1)
	if err := os.Rename(undoFile(dir), name); err != nil {
		return fmt.Errorf("failed to save the script that heals what is active: %w", err)
	}
	s.healing = ""
	return nil
}

// lost returns the scripts that have not healed everything yet.
func (s *store) lost() []string {
	all, _ := filepath.Glob(lostScripts(filepath.Dir(s.file))) // the only error is that of a bad pattern
	return all
}

// healLost runs the scripts, and returns once each has run, or after lostPatience. Those that fail are
// run again until they succeed.
func (a *agent) healLost() {
	if len(a.store.lost()) == 0 {
		return
	}
	complain(errors.New("the state of an earlier agent was lost: its script heals what was active"))
	a.store.note(func(st *state) { st.Lapsed = time.Now() })
	tried := make(chan struct{})
	go func() {
		a.runLost()
		close(tried)
		for len(a.store.lost()) > 0 {
			select {
			case <-time.After(retryPause):
				a.runLost()
			case <-a.closed:
				return
			}
		}
	}()
	select {
	case <-tried:
	case <-time.After(lostPatience):
	}
}

// runLost runs each script once. It does not end one that takes long: its processes would continue.
func (a *agent) runLost() {
	for _, file := range a.store.lost() {
		out, err := exec.Command("sh", file).CombinedOutput()
		if err == nil {
			err = os.Remove(file)
		}
		if err != nil {
			complain(fmt.Errorf("failed to heal what an agent with lost state left behind: %w: %s", err, strings.TrimSpace(string(out))))
		}
	}
}
