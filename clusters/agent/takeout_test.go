package agent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestActive(t *testing.T) {
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if all := s.active(); all == nil || len(all) != 0 {
		t.Errorf("%q", all)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	s.read(func(st *state) {
		st.Components[framework.Etcd] = &componentState{PID: 7, ThawAt: at}
		st.Components[framework.Scheduler] = &componentState{HoldUntil: at}
		st.Spoilt[framework.APIServer] = &spoiltState{Until: at}
		st.Wiped = &wipedState{Until: at}
		st.Filled = &filledState{Until: at}
		st.Impaired["x"] = &impairedState{Until: at}
	})
	want := []string{
		"certificates of kube-apiserver are defective until 03:04:05", "etcd is frozen until 03:04:05",
		"kube-scheduler is held down until 03:04:05", "links are impaired until 03:04:05", "the data of etcd are wiped until 03:04:05",
		"the file system of the data of etcd is filled until 03:04:05",
	}
	if all := s.active(); !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

// The names are those of the agent's programs, as the kernel cuts them.
func TestTakeOut(t *testing.T) {
	for _, role := range []string{roleAgent, roleConnect, roleKeep} {
		if comm := role[:min(15, len(role))]; !strings.HasPrefix(comm, commPrefix) {
			t.Errorf("%s is not found by %s", comm, commPrefix)
		}
	}
	if !strings.HasPrefix(shimName, shimComm) || len(shimComm) != 15 {
		t.Errorf("%s is not what the kernel makes of %s", shimComm, shimName)
	}
	for _, path := range []string{letGoScript, manifestsFile(defaultDir), BinaryPath, ConnectPath, KeepPath, UnitPath, defaultDir} {
		if !strings.Contains(TakeOut(), path) {
			t.Errorf("%s stays", path)
		}
	}
}

// TestEndAgents is not parallel: the script ends the agents of all tests that run.
func TestEndAgents(t *testing.T) {
	n := newNode(t)
	n.up()
	if out, err := exec.Command("sh", "-c", endAgents).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s, %v", out, err)
	}
	if err := n.agent.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the agent: %v", err)
	}
}

// TestFootprint checks that everything that reaches beyond the agent's own files is listed.
func TestFootprint(t *testing.T) {
	all := strings.Join(Footprint(), "\n")
	for _, what := range []string{BinaryPath, ConnectPath, KeepPath, ConfigPath, defaultDir, runDir, UnitPath, GuardPath, GuardUnitPath, framesTable,
		detourDevice, filepath.Base(filterFile("eth0")), asideDir, ".holdfast-*", fillName, "stays: the annotation " + renewed} {
		if !strings.Contains(all, what) {
			t.Errorf("%q is missing in:\n%s", what, all)
		}
	}
}

// relocated returns a script with a node's own paths instead of the usual ones, without what
// would reach other tests.
func relocated(n *testNode, script string, more ...string) string {
	return strings.NewReplacer(append(more, filepath.Clean(manifests), filepath.Join(n.config.Dir, "none"), runDir, filepath.Dir(n.config.Socket), defaultDir, n.config.Dir,
		"nft list tables", "false", "= "+shimComm+" ]", "= none ]", commPrefix+"*)", "none)")...).Replace(script)
}

// TestTakeOutManifests checks that a shell puts the manifests of static pods back, wherever they
// are and even if the agent's state is lost, and leaves nothing beside them.
func TestTakeOutManifests(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	dir := t.TempDir()
	pods := []manifest{manifest(filepath.Join(dir, "agent", "pod-manifests", "kube-scheduler.yaml")), manifest(filepath.Join(dir, "their own", "pods", "etcd.yml"))}
	names := []framework.Component{scheduler, framework.Etcd}
	var asides []string
	for i, m := range pods {
		mkdir(t, filepath.Dir(m.path()))
		write(t, m.path(), "of "+m.path())
		asides = append(asides, filepath.Dir(m.aside().path()))
		// One after the other: an agent with another configuration has run before.
		n.config.Components = []Component{{Name: names[i], Command: "none", Manifest: m.path()}}
		n.up()
		n.kill()
	}
	for i, m := range pods {
		must(t, m.takeAway())
		for _, beside := range []string{asides[i], filepath.Dir(m.path())} {
			write(t, filepath.Join(beside, ".etcd.yml.holdfast"), "half")
		}
	}
	must(t, os.Remove(stateFile(n.config.Dir)))
	script := relocated(n, TakeOut(), BinaryPath, filepath.Join(dir, "none"), "/etc/holdfast ", filepath.Join(dir, "none")+" ")
	var out bytes.Buffer
	shell := exec.Command("sh", "-c", script)
	shell.Stdout, shell.Stderr = &out, &out
	if err := shell.Run(); err != nil || out.Len() > 0 {
		t.Errorf("%s, %v", out.String(), err)
	}
	for _, m := range pods {
		if b, err := os.ReadFile(m.path()); err != nil || string(b) != "of "+m.path() {
			t.Errorf("the manifest is %q, %v", b, err)
		}
		if all, _ := os.ReadDir(filepath.Dir(m.path())); len(all) != 1 {
			t.Errorf("beside the manifest there is %v", all)
		}
	}
	if all := left(append(asides, n.config.Dir)); len(all) > 0 {
		t.Errorf("there is left %q", all)
	}
}

// TestTakeOutKeepsWhatIsNotHealed: the script that could not heal everything stays, with what it heals,
// until it can, and so do the units and the program, which heal it if the node restarts.
func TestTakeOutKeepsWhatIsNotHealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := &testNode{t: t, config: Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state")}}
	mkdir(t, n.config.Dir)
	space, told := filepath.Join(dir, "space"), filepath.Join(dir, "told")
	installed := []string{filepath.Join(dir, "program"), filepath.Join(dir, UnitName), filepath.Join(dir, GuardName)}
	for _, file := range installed {
		write(t, file, "#!/bin/sh\n")
	}
	write(t, filepath.Join(dir, "systemctl"), "#!/bin/sh\necho \"$*\" >>"+told+"\n")
	must(t, os.Chmod(filepath.Join(dir, "systemctl"), 0o755))
	write(t, undoFile(n.config.Dir), "[ -e "+space+" ]\n")
	write(t, filepath.Join(n.config.Dir, "undo-1.sh"), "[ -e "+space+"-2 ]\n")
	script := relocated(n, TakeOut(), BinaryPath, installed[0], UnitPath, installed[1], GuardUnitPath, installed[2], "/etc/holdfast ", filepath.Join(dir, "none")+" ")
	takeOut := func() ([]byte, error) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		return cmd.CombinedOutput()
	}
	out, err := takeOut()
	if err == nil || !strings.Contains(string(out), "not everything could be healed: "+n.config.Dir) || !exists(undoFile(n.config.Dir)) || len(left(installed)) != len(installed) {
		t.Errorf("without space: %s, %v; the script is there: %t, and %q", out, err, exists(undoFile(n.config.Dir)), left(installed))
	}
	const stops = "stop " + UnitName + "\nstop " + GuardName + "\n"
	const again = stops + "start --no-block " + GuardName + "\n"
	if b, err := os.ReadFile(told); err != nil || string(b) != again {
		t.Errorf("systemctl was told %q, %v, want %q", b, err, again)
	}
	write(t, space, "")
	if out, err := takeOut(); err == nil || exists(undoFile(n.config.Dir)) || !exists(filepath.Join(n.config.Dir, "undo-1.sh")) {
		t.Errorf("with space for one: %s, %v; that script is there: %t", out, err, exists(undoFile(n.config.Dir)))
	}
	write(t, space+"-2", "")
	if out, err := takeOut(); err != nil || len(out) > 0 || len(left(append(installed, n.config.Dir))) > 0 {
		t.Errorf("with space: %s, %v; there is left %q", out, err, left(append(installed, n.config.Dir)))
	}
	const removes = stops + "disable " + GuardName + "\ndaemon-reload\ndisable " + UnitName + "\ndaemon-reload\n"
	if b, err := os.ReadFile(told); err != nil || string(b) != again+again+removes {
		t.Errorf("systemctl was told %q, %v, want %q", b, err, again+again+removes)
	}
}

// TestTakeOutKeepsAgent: an agent that is to add the etcd member of its node again keeps running, if it
// still knows that and can run. Those of other nodes do not.
func TestTakeOutKeepsAgent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		own, script, starts string
		keeps               bool
		says                string
	}{
		{"node-1", undoName, "exit 0", true, "is to add the etcd member of this node again"},
		{"node-2", undoName, "exit 0", false, ""},
		{"node-1", "undo-1.sh", "exit 0", false, "add it again by hand"},
		{"node-1", undoName, "exit 1", false, "add it again by hand"},
	} {
		dir := t.TempDir()
		n := &testNode{t: t, config: Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state")}}
		mkdir(t, n.config.Dir)
		told, program, unit := filepath.Join(dir, "told"), filepath.Join(dir, "program"), filepath.Join(dir, UnitName)
		write(t, program, "#!/bin/sh\n")
		write(t, unit, "")
		write(t, filepath.Join(dir, "systemctl"), "#!/bin/sh\necho \"$*\" >>"+told+"\ncase $1 in start) "+tc.starts+";; esac\n")
		must(t, os.Chmod(filepath.Join(dir, "systemctl"), 0o755))
		removed := framework.Undoing{Fault: "remove-member", Node: "node-1", Rejoin: []string{"https://10.0.0.11:2380"}}
		if heal := healScript(n.config, &state{Promises: map[string]*promiseState{"x": {Undoing: removed, Own: tc.own}}}); heal != "" {
			write(t, filepath.Join(n.config.Dir, tc.script), relocated(n, heal, BinaryPath, program))
		}
		cmd := exec.Command("sh", "-c", relocated(n, TakeOut(), BinaryPath, program, UnitPath, unit, GuardUnitPath, filepath.Join(dir, "none"), GuardPath, filepath.Join(dir, "none"), "/etc/holdfast ", filepath.Join(dir, "none")+" "))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		asked, _ := os.ReadFile(told)
		last := "daemon-reload\n"
		if tc.keeps {
			last = "start --no-block " + UnitName + "\n"
		}
		if (err != nil) != tc.keeps || exists(program) != tc.keeps || exists(n.config.Dir) != tc.keeps || !strings.HasSuffix(string(asked), last) || !strings.Contains(string(out), tc.says) {
			t.Errorf("%+v: %s, %v; the program is there: %t; systemctl was told %q", tc, out, err, exists(program), asked)
		}
	}
}

// TestUsed: an installation that failed leaves files without the program, and counts.
func TestUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := &testNode{t: t, config: Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state")}}
	mkdir(t, n.config.Dir)
	program, config, unit := filepath.Join(dir, "program"), filepath.Join(dir, "agent.json"), filepath.Join(dir, UnitName)
	script := relocated(n, Used(), BinaryPath, program, ConfigPath, config, UnitPath, unit)
	for _, tc := range []struct{ file, want string }{{"", ""}, {program, "unused\n"}, {config, "unused\n"}, {unit, "unused\n"}, {stateFile(n.config.Dir), "used\n"}} {
		if tc.file != "" {
			write(t, tc.file, "")
		}
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil || string(out) != tc.want {
			t.Errorf("with %s: %q, %v, want %q", tc.file, out, err, tc.want)
		}
		if tc.file != "" {
			must(t, os.Remove(tc.file))
		}
	}
}
