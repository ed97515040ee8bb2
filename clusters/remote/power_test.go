package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// socket is a power socket of the test: files in a directory.
type socket struct {
	t   *testing.T
	dir string
	*power
}

func newSocket(t *testing.T) *socket {
	s := &socket{t: t, dir: t.TempDir()}
	n := testNode()
	n.Power = &clusters.InventoryPower{
		Off: "cd " + s.dir + " && echo $HOLDFAST_NODE $HOLDFAST_ADDRESS >>offs && echo off >state",
		// The first fails attempts do nothing.
		On: "cd " + s.dir + " && echo >>ons && [ $(wc -l <ons) -gt $(cat fails) ] && echo on >state && cat next >boot",
		// When the test is over, a guard has nothing to restore.
		Status: "cat " + s.dir + "/state 2>/dev/null || echo on; echo ignored",
	}
	s.power = powerOf(n)
	s.Pause = 500 * time.Millisecond
	for name, text := range map[string]string{"state": "on", "fails": "0", "boot": "boot first 100 2.5", "next": "boot second 200 5.0"} {
		s.write(name, text)
	}
	return s
}

func (s *socket) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// read returns what a file has, empty if it does not exist.
func (s *socket) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(b)
}

// ons is how often the command on ran.
func (s *socket) ons() int { return strings.Count(s.read("ons"), "\n") }

func (s *socket) waitFor(state string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); s.read("state") != state+"\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the power is %q, want %s", s.read("state"), state)
		}
	}
}

// TestGuard: power comes back without the harness, and with it immediately.
func TestGuard(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fails int
		ttl   time.Duration
		// ends is what ends the loss of power, beside its time to live.
		ends func(t *testing.T, g *guard)
		ons  int
	}{
		{"released", 0, time.Hour, func(t *testing.T, g *guard) {
			if err := g.release(t.Context()); err != nil {
				t.Error(err)
			}
		}, 1},
		{"the command on fails twice", 2, time.Hour, func(t *testing.T, g *guard) {
			if err := g.release(t.Context()); err != nil {
				t.Error(err)
			}
		}, 3},
		{"its time is over", 0, 300 * time.Millisecond, func(*testing.T, *guard) {}, 1},
		{"another process restores the power", 0, time.Hour, func(t *testing.T, g *guard) {
			if err := g.release(t.Context()); err != nil {
				t.Error(err)
			}
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSocket(t)
			s.write("fails", strconv.Itoa(tc.fails))
			g, err := startGuard(s.power, tc.ttl)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.cut(t.Context()); err != nil {
				t.Fatal(err)
			}
			if said := s.read("offs"); said != "node-1 10.0.0.11\n" {
				t.Errorf("the command off printed %q", said)
			}
			if tc.ons == 0 {
				s.write("state", "on")
			}
			tc.ends(t, g)
			s.waitFor("on")
			<-g.gone
			if n := s.ons(); n != tc.ons {
				t.Errorf("the command on ran %d times, want %d", n, tc.ons)
			}
		})
	}
}

// TestGuardOfLatePower: what the command off has started may take longer than status is asked. The
// power that is on until then is not restored.
func TestGuardOfLatePower(t *testing.T) {
	for _, tc := range []struct {
		name, off string
		ons       int
	}{
		{"it goes off late", "(sleep 2; echo off >state) >&- 2>&- &", 1},
		{"it stays on", "true", 0},
		{"the command fails", "exit 1", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSocket(t)
			s.Late = time.Second
			s.Do.Off = "cd " + s.dir + "; " + tc.off
			g, err := startGuard(s.power, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.cut(t.Context()); err == nil {
				t.Error("the power is off in time")
			}
			if err := g.release(t.Context()); err != nil {
				t.Error(err)
			}
			if n := s.ons(); n != tc.ons || s.read("state") != "on\n" {
				t.Errorf("the command on ran %d times, want %d, and the power is %q", n, tc.ons, s.read("state"))
			}
		})
	}
}

// TestGuardOutlivesHarness: SIGKILL to the harness restores the power, also while the command off
// still runs.
func TestGuardOutlivesHarness(t *testing.T) {
	for _, tc := range []struct{ name, off, until string }{
		{"while the power is off", "echo off >state", "off"},
		{"while it is cut", "echo cutting >state; sleep 1; echo off >state", "cutting"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSocket(t)
			s.Do.Off = "cd " + s.dir + "; " + tc.off
			order, err := json.Marshal(guardOrder{s.power, time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), harnessVariable+"="+string(order))
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			pid := 0
			if err == nil {
				_, err = fmt.Fscan(out, &pid)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.waitFor(tc.until)
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			s.waitFor("on")
			if n := s.ons(); n != 1 {
				t.Errorf("the command on ran %d times", n)
			}
			// Orphans that nothing reaps stay zombies.
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				p, err := procfs.ReadStat("/proc", pid)
				if err != nil || p.State == "Z" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the guard still runs (%s)", p.State)
				}
			}
		})
	}
}

func TestPowerCommands(t *testing.T) {
	for _, tc := range []struct{ name, status, want string }{
		{"neither on nor off", "echo up", `the power command status of node-1 printed "up": want on or off in its first line`},
		{"no answer", "true", `printed ""`},
		{"it fails", "echo bad luck >&2; exit 7", "the power command status of node-1 failed: exit status 7: bad luck"},
		{"a password in its error", "echo >&2 no -P calvin; exit 1", "exit status 1: no -P [redacted]"},
		{"one that is named", "exec 2>&1; echo password=$(echo hun)ter2 >&2; exit 1", "failed: exit status 1"},
		{"it does not exist", "ipmitol status", "ipmitol: not found"},
	} {
		p := &power{Node: "node-1", Do: &clusters.InventoryPower{Status: tc.status}}
		_, err := p.status(t.Context())
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "command not found", "not found"), tc.want) || strings.Contains(err.Error(), "calvin") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
	p := &power{Node: "node-1", Do: &clusters.InventoryPower{}}
	began := time.Now()
	_, err := p.run(t.Context(), "status", "sleep 60 & sleep 60", 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "it did not finish within 100ms") || time.Since(began) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestExaminePower(t *testing.T) {
	for _, tc := range []struct {
		name, state string
		seen        *sight
		want        Check
	}{
		{"on", "on", &sight{systemd: true}, Check{Found: "on"}},
		{"off", "off", nil, Check{Problem: "off"}},
		{"off, while the node answers", "off", &sight{systemd: true}, Check{Problem: "its status command reports off, but the node answers: do the commands belong to another machine?"}},
		{"without systemd", "on", &sight{}, Check{Found: "on; it stays on, since the node does not run systemd, which would start the agent again"}},
	} {
		s := newSocket(t)
		s.write("state", tc.state)
		tc.want.What = "power of node-1"
		got := s.examine(t.Context(), tc.seen)
		if tc.want.Problem == "" && got != tc.want || got.Problem != tc.want.Problem {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if s.read("offs")+s.read("ons") != "" {
			t.Errorf("%s: the power was changed", tc.name)
		}
	}
}

// bed returns a cluster of three nodes, of which the first has a power socket, a boot that ssh
// reports, and an agent that answers while the power is on.
func bed(t *testing.T, levels ...Level) (*socket, powered) {
	t.Helper()
	s := newSocket(t)
	ssh := "#!/bin/sh\nfor last; do :; done\ncase \"$last\" in *boot_id*) echo A banner; cat " + s.dir + "/boot;; *) exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(s.dir, "ssh"), []byte(ssh), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", s.dir+":"+os.Getenv("PATH"))
	l, err := net.Listen("unix", filepath.Join(s.dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		if s.read("state") != "on\n" {
			http.Error(w, "no power", http.StatusConflict)
			return
		}
		_, _ = w.Write([]byte("null"))
	})
	go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
	c := &Cluster{Observed: &Observed{spec: clusters.Default()}, consent: Consent{Expires: time.Now().Add(time.Hour), Levels: levels}}
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		c.reached = append(c.reached, &node{plain: &plain{spec: clusters.Node{Name: name}}, cluster: c, shell: shell{node: name}, found: &found{sight: &sight{systemd: name != "node-3"}}})
	}
	c.broken.groups = groupsOf(c.nodeNames(), nil)
	n := c.reached[0]
	n.outlet = &outlet{power: s.power}
	n.Client = agent.NewClient(n.Name(), func(ctx context.Context) (net.Conn, error) {
		if n.off() {
			return nil, n.errOff()
		}
		return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
	})
	t.Cleanup(n.Client.Close)
	t.Cleanup(func() { // before its files are deleted
		if g := n.outlet.guard.Load(); g != nil {
			_ = g.release(context.Background())
		}
	})
	return s, powered{n}
}

func TestPowerSwitch(t *testing.T) {
	s, n := bed(t, Processes, Power)
	is := func(when string, want bool) {
		t.Helper()
		if on, err := n.Powered(t.Context()); err != nil || on != want {
			t.Errorf("%s it is on: %v, error %v", when, on, err)
		}
	}
	is("before", true)
	if err := n.PowerOn(t.Context()); err != nil || s.ons() > 0 {
		t.Errorf("of a node that is on: %v", err)
	}
	if err := n.PowerOff(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	is("without power", false)
	if _, err := n.Process(t.Context(), framework.Etcd); err == nil || !strings.Contains(err.Error(), "node-1 is powered off") {
		t.Errorf("a process without power: %v", err)
	}
	if err := n.PowerOff(t.Context(), time.Hour); !errors.Is(err, framework.ErrNothingDone) || s.ons() > 0 {
		t.Errorf("off twice: %v", err)
	}
	if err := n.cluster.CheckPowerOff([]string{"node-2"}); !errors.Is(err, ErrNoConsent) {
		t.Errorf("a second node: %v", err)
	}
	for range 2 {
		if err := n.PowerOn(t.Context()); err != nil || s.ons() != 1 {
			t.Errorf("on: %v, after %d commands", err, s.ons())
		}
	}
	is("again", true)
	if ago := time.Since(n.Booted()); ago < 3*time.Second || ago > time.Minute {
		t.Errorf("it booted %s ago", ago)
	}
	if len(n.cluster.broken.active) > 0 {
		t.Errorf("broken is %v", n.cluster.broken.active)
	}

	// Its time to live is over, and it is cut again.
	s.write("next", "boot third 300 6.0")
	for range 2 {
		if err := n.PowerOff(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s.waitFor("on")
	}

	// The end of a run.
	if err := n.PowerOff(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	s.write("next", "boot fourth 400 7.0")
	if err := n.restorePower(t.Context()); err != nil || n.off() {
		t.Errorf("at the end: %v", err)
	}
}

// TestPowerOfAnotherMachine: commands that do not lead to the node prove nothing.
func TestPowerOfAnotherMachine(t *testing.T) {
	s, n := bed(t, Processes, Power)
	s.write("next", "boot first 100 9.0")
	if err := n.PowerOff(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := n.PowerOn(ctx); err == nil || !strings.Contains(err.Error(), "the machine did not restart") {
		t.Errorf("%v", err)
	}
}

func TestPowerRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		levels []Level
		nodes  []string
		want   string
	}{
		{"no consent", []Level{Processes, QuorumLoss}, []string{"node-1"}, `to the level "power"`},
		{"consent", []Level{Processes, Power}, []string{"node-1"}, ""},
		{"more nodes than the cluster tolerates", []Level{Processes, Power}, []string{"node-1", "node-2"}, `to the level "quorum-loss"`},
		{"with consent to that", []Level{Processes, Power, QuorumLoss}, []string{"node-1", "node-2"}, ""},
		{"a node without systemd", []Level{Processes, Power}, []string{"node-3"}, "node-3 does not have: it does not run systemd"},
	} {
		s, n := bed(t, tc.levels...)
		err := n.cluster.CheckPowerOff(tc.nodes)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.Is(err, framework.ErrNothingDone) || !errors.As(err, new(*fault.MissingAbility)) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
		if tc.nodes[0] == "node-1" && len(tc.nodes) == 1 {
			if err := n.PowerOff(t.Context(), time.Hour); !errors.Is(err, framework.ErrNothingDone) || s.read("offs") != "" {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	}
}
