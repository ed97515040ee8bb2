package agent

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
)

// supervised runs a program that does nothing under a name, and starts it again whenever it
// ends, after a pause in seconds. It returns the process that runs now.
func supervised(t *testing.T, name, pause string) func() int {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	must(t, os.Symlink("/bin/sleep", program))
	supervisor := exec.Command("sh", "-c", `while :; do "$0" 1000; sleep "$1"; done`, program, pause)
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, supervisor.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-supervisor.Process.Pid, syscall.SIGKILL)
		_ = supervisor.Wait()
	})
	return func() int {
		pids, err := procfs.Find("/proc", func(args []string) bool { return args[0] == program })
		if err != nil || len(pids) != 1 {
			return 0
		}
		return pids[0]
	}
}

func stateOf(pid int) string {
	st, err := procfs.ReadStat("/proc", pid)
	if err != nil {
		return ""
	}
	return st.State
}

// TestHealScript heals by a shell alone what an agent that is gone has left.
func TestHealScript(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	suffix := fmt.Sprint("-", nodes.Add(1))
	frozen, etcd := supervised(t, "frozen"+suffix, "0.05"), supervised(t, "etcd"+suffix, "1.5")
	n.config.EtcdData = filepath.Join(t.TempDir(), "etcd")
	n.config.Components = []Component{{Name: scheduler, Command: "frozen" + suffix}, {Name: etcdPod, Command: "etcd" + suffix}}
	mkdir(t, filepath.Join(n.config.EtcdData, "member"))
	write(t, filepath.Join(n.config.EtcdData, "member", "own"), "data")
	n.up()
	n.runs(scheduler)
	n.runs(etcdPod)
	undo := undoFile(n.config.Dir)
	if _, err := os.Stat(undo); err == nil {
		t.Error("there is something to heal before any fault")
	}
	must(t, n.Freeze(t.Context(), scheduler, time.Hour))
	if _, err := n.WipeDisk(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	n.kill()
	if state := stateOf(frozen()); state != "T" {
		t.Fatalf("it is in state %q, not frozen", state)
	}
	eventually(t, "the member runs without its data", func() bool { return etcd() != 0 })
	mkdir(t, filepath.Join(n.config.EtcdData, "member"))
	write(t, filepath.Join(n.config.EtcdData, "member", "new"), "of the member that has started without data")
	before := etcd()
	out, err := exec.Command("sh", undo).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%s, %v", out, err)
	}
	eventually(t, "it continues", func() bool { return stateOf(frozen()) != "T" })
	if b, err := os.ReadFile(filepath.Join(n.config.EtcdData, "member", "own")); err != nil || string(b) != "data" {
		t.Errorf("the member's data: %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(n.config.EtcdData, "member", "new")); err == nil {
		t.Error("the data of the member that started without its own are still there")
	}
	eventually(t, "another process of the member runs", func() bool { return etcd() != 0 && etcd() != before })
}

// TestHealScriptLeavesPods: a member of etcd in a pod that the API server created is not the node's, and
// is left alone when a shell puts the data back.
func TestHealScriptLeavesPods(t *testing.T) {
	t.Parallel()
	name := fmt.Sprint("etcd-of-two-", nodes.Add(1))
	pod, own := supervised(t, name, "0.05"), supervised(t, name, "0.05")
	eventually(t, "both run", func() bool { return pod() != 0 && own() != 0 })
	other, before := pod(), own()
	inPod(t, other, "1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	c := Config{EtcdData: t.TempDir(), Components: []Component{{Name: etcdPod, Command: name}}}
	mkdir(t, (&etcd{data: c.EtcdData}).aside())
	if out, err := exec.Command("sh", "-c", unwiping(c)).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s, %v", out, err)
	}
	eventually(t, "another process of the member runs", func() bool { return own() != 0 && own() != before })
	if pod() != other {
		t.Error("the member in a pod was killed")
	}
	if !exists(filepath.Join(c.EtcdData, "member")) {
		t.Error("the data are not there")
	}
}

// TestHealScriptOf has every kind of what a shell can heal in the script.
func TestHealScriptOf(t *testing.T) {
	at := time.Now()
	file := filepath.Join(t.TempDir(), "server's.crt")
	write(t, file, "spoilt")
	must(t, os.Chmod(file, 0o640))
	restored := filepath.Join(t.TempDir(), "their own", ".holdfast-restored")
	mkdir(t, filepath.Join(restored, "member"))
	point, err := mountPoint(restored)
	must(t, err)
	c := Config{Socket: filepath.Join(t.TempDir(), "run", "agent.sock"), Components: []Component{{Name: etcdPod, Unit: "etcd.service"}, {Name: scheduler, Manifest: "/etc/kubernetes/manifests/kube-scheduler.yaml"}, {Name: framework.APIServer}}}
	st := &state{Components: map[framework.Component]*componentState{
		etcdPod:             {HoldUntil: at, PID: 8},
		scheduler:           {HoldUntil: at, Stopped: []shim{{PID: 7}}},
		framework.APIServer: {HoldUntil: at, CrashUntil: at},
	}, Spoilt: map[framework.Component]*spoiltState{framework.APIServer: {Own: map[string][]byte{file: []byte("own\n")}}}, Restoring: &restoringState{Path: restored, Mount: point}}
	script := healScript(c, st)
	for _, want := range []string{"systemctl reset-failed etcd.service 2>/dev/null\nsystemctl start --no-block etcd.service\n", "kill -CONT 7\n", "mv /etc/kubernetes/holdfast-aside/kube-scheduler.yaml /etc/kubernetes/manifests/kube-scheduler.yaml || rc=1\n"} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is missing in:\n%s", want, script)
		}
	}
	if script := healScript(c, &state{Components: map[framework.Component]*componentState{etcdPod: {PID: 8}}}); script != "" {
		t.Errorf("without a fault it heals:\n%s", script)
	}
	st.Components = nil
	if out, err := exec.Command("sh", "-c", healScript(c, st)).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s, %v", out, err)
	}
	if exists(restored) || !exists(filepath.Dir(restored)) {
		t.Errorf("what a restore has left is there: %t; its directory: %t", exists(restored), exists(filepath.Dir(restored)))
	}
	info, err := os.Stat(file)
	must(t, err)
	if b, err := os.ReadFile(file); err != nil || string(b) != "own\n" || info.Mode().Perm() != 0o640 {
		t.Errorf("the certificate is %q with mode %s, %v", b, info.Mode(), err)
	}
}

// TestHealScriptOfRenewed: the script replaces a defective certificate, and one that it replaced only in
// part, and leaves one that was renewed.
func TestHealScriptOfRenewed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "server's.crt")
	const own, bad = "line\n*\n", "defective\n"
	c := Config{Socket: filepath.Join(t.TempDir(), "run", "agent.sock")}
	script := healScript(c, &state{Spoilt: map[framework.Component]*spoiltState{framework.APIServer: {
		Own: map[string][]byte{file: []byte(own)}, Bad: map[string][]byte{file: []byte(bad)}}}})
	for _, sh := range shells(t) {
		for is, want := range map[string]string{bad: own, own: own, "li": own, "": own, "renewed\n": "renewed\n", "line\nx\n": "line\nx\n"} {
			write(t, file, is)
			out, err := sh("-c", script).CombinedOutput()
			if b, readErr := os.ReadFile(file); err != nil || readErr != nil || string(b) != want || strings.Contains(string(out), "was replaced") != (is == want && is != own) {
				t.Errorf("%q became %q, %v; the script: %s, %v", is, b, readErr, out, err)
			}
		}
	}
}

// TestHealScriptOnFullDisk: a full disk does not damage a certificate, and the script
// reports that it was not restored. The same with the volume of the data not mounted in time.
func TestHealScriptOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pki")
	mountTmpfs(t, dir, "64k")
	file, fill := filepath.Join(dir, "server.crt"), filepath.Join(dir, "fill")
	own := strings.Repeat("own\n", 3000)
	write(t, file, "defective")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the file system is not full")
	}
	c := Config{Socket: filepath.Join(t.TempDir(), "run", "agent.sock")}
	script := healScript(c, &state{Spoilt: map[framework.Component]*spoiltState{framework.APIServer: {Own: map[string][]byte{file: []byte(own)}}}})
	for _, sh := range shells(t) {
		out, err := sh("-c", script).CombinedOutput()
		if b, readErr := os.ReadFile(file); err == nil || readErr != nil || string(b) != "defective" || exists(filepath.Join(dir, ".server.crt.holdfast")) {
			t.Errorf("full: the certificate is %q, %v; the script: %s, %v", b, readErr, out, err)
		}
	}
	must(t, os.Remove(fill))
	for _, sh := range shells(t) {
		write(t, file, "defective")
		out, err := sh("-c", script).CombinedOutput()
		if b, readErr := os.ReadFile(file); err != nil || len(out) > 0 || readErr != nil || string(b) != own {
			t.Errorf("with space: the certificate is %q, %v; the script: %s, %v", b, readErr, out, err)
		}
		unmounted := "sleep() { :; }\nrc=0\n" + awaitMount(filepath.Join(dir, "none")) + "exit $rc"
		if out, err := sh("-c", unmounted).CombinedOutput(); err == nil {
			t.Errorf("a volume that is never mounted: %s", out)
		}
	}
}

// shells returns the shells of this machine that nodes may have as sh, as far as it has them.
func shells(t *testing.T) (all []func(args ...string) *exec.Cmd) {
	t.Helper()
	for _, command := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		if path, err := exec.LookPath(command[0]); err == nil {
			all = append(all, func(args ...string) *exec.Cmd { return exec.Command(path, append(command[1:], args...)...) })
		}
	}
	if len(all) == 0 {
		t.Skip("no shell is there")
	}
	return all
}

// guardOf starts the guard of a node, at the node's own paths.
func guardOf(t *testing.T, n *testNode) (paths []string, ended func() bool) {
	t.Helper()
	must(t, exec.Command("sh", "-n", "-c", Guard(guardLeash)).Run())
	dir := t.TempDir()
	binary, script, unit := filepath.Join(dir, "holdfast-node-agent"), filepath.Join(dir, "guard.sh"), filepath.Join(dir, GuardName)
	write(t, binary, "")
	write(t, unit, guardUnit())
	// systemd, as far as the guard needs it: it kills the guard when it is to stop it.
	write(t, filepath.Join(dir, "systemctl"), "#!/bin/sh\necho \"$*\" >>"+dir+"/systemctl.log\n[ \"$*\" != 'stop "+GuardName+"' ] || kill -9 $(cat "+filepath.Dir(n.config.Socket)+"/guard.pid)\n")
	must(t, os.Chmod(filepath.Join(dir, "systemctl"), 0o755))
	text := relocated(n, Guard(guardLeash), GuardUnitPath, unit, BinaryPath, binary, GuardPath, script, "/etc/holdfast ", dir+"/etc ",
		fmt.Sprintf(" -ge %d ]", int(abandonAfter.Seconds())), " -ge 6 ]")
	write(t, script, text)
	guard := exec.Command("sh", script)
	guard.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var said bytes.Buffer
	guard.Stdout, guard.Stderr = &said, &said
	must(t, guard.Start())
	over := make(chan struct{})
	go func() {
		_ = guard.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		_ = guard.Process.Kill()
		<-over
		asked, _ := os.ReadFile(filepath.Join(dir, "systemctl.log"))
		if want := "disable " + GuardName + "\ndaemon-reload\n"; string(asked) != want || said.Len() > 0 {
			t.Errorf("the guard asked systemd for %q, want %q, and said %q", asked, want, said.String())
		}
	})
	return []string{binary, unit, n.config.Dir, filepath.Dir(n.config.Socket)}, func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
}

// guardLeash is that of guards in tests.
const guardLeash = 3 * time.Second

func left(paths []string) (all []string) {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// TestGuard ends an agent in the middle of a fault, by which nothing is healed and nothing is
// removed any more but by the guard.
func TestGuard(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		n := newNode(t)
		suffix := fmt.Sprint("-", nodes.Add(1))
		frozen := supervised(t, "frozen"+suffix, "0.05")
		n.config.Components, n.config.Leash = []Component{{Name: scheduler, Command: "frozen" + suffix}}, time.Hour
		n.up()
		n.runs(scheduler)
		paths, ended := guardOf(t, n)
		must(t, n.Freeze(t.Context(), scheduler, time.Hour))
		// Longer than it waits for an agent that does not run.
		for until := time.Now().Add(2*guardLeash + guardPause); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			must(t, n.Ping(t.Context()))
		}
		if ended() || len(left(paths)) != len(paths) || stateOf(frozen()) != "T" {
			t.Fatalf("with an agent that is asked: guard ended %t, there is left %q, the component is in state %s", ended(), left(paths), stateOf(frozen()))
		}
		must(t, n.agent.Process.Signal(end))
		before := time.Now()
		for !ended() && time.Since(before) < time.Minute {
			time.Sleep(50 * time.Millisecond)
		}
		if all := left(paths); !ended() || len(all) > 0 || stateOf(frozen()) == "T" {
			t.Errorf("%s: guard ended %t, there is left %q, the component is in state %s", end, ended(), all, stateOf(frozen()))
		}
		t.Logf("%s: healed and removed after %s", end, time.Since(before).Round(time.Millisecond))
		_ = n.agent.Process.Kill()
	}
}

// TestGuardTriesAgain: what the guard cannot heal it heals later, and stays until then.
func TestGuardTriesAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.config.Leash = time.Hour
	n.up()
	paths, ended := guardOf(t, n)
	n.kill()
	tried, space := filepath.Join(t.TempDir(), "tried"), filepath.Join(t.TempDir(), "space")
	write(t, undoFile(n.config.Dir), ": >"+tried+"\n[ -e "+space+" ]\n")
	eventually(t, "the guard has tried", func() bool { return exists(tried) })
	time.Sleep(time.Second)
	// A restart of the node needs the program and the units.
	if all := left(paths); ended() || !exists(undoFile(n.config.Dir)) || len(all) != len(paths) {
		t.Fatalf("the guard ended: %t; there is left %q", ended(), all)
	}
	write(t, space, "")
	eventually(t, "the guard has ended", ended)
	if all := left(paths); len(all) > 0 {
		t.Errorf("there is left %q", all)
	}
}

// TestGuardOfAbandoned removes an agent that receives no requests, once it has nothing to
// heal.
func TestGuardOfAbandoned(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.config.Leash = time.Hour
	suffix := fmt.Sprint("-", nodes.Add(1))
	supervised(t, "held"+suffix, "0.05")
	n.config.Components = []Component{{Name: scheduler, Command: "held" + suffix}}
	n.up()
	n.runs(scheduler)
	const lasts = 12 * time.Second
	must(t, n.Kill(t.Context(), scheduler, lasts))
	began := time.Now()
	paths, ended := guardOf(t, n)
	for !ended() && time.Since(began) < time.Minute {
		time.Sleep(50 * time.Millisecond)
	}
	if all := left(paths); !ended() || len(all) > 0 {
		t.Errorf("guard ended %t, there is left %q", ended(), all)
	}
	if took := time.Since(began); took < lasts {
		t.Errorf("it was removed after %s, while a fault was active for %s", took, lasts)
	}
}

// TestInUse says for how long another run has not asked an agent for anything.
func TestInUse(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.config.Leash, n.config.Run = time.Hour, "process 1 on laptop"
	script := strings.ReplaceAll(InUse(), runDir, filepath.Dir(n.config.Socket))
	said := func() string {
		out, err := exec.Command("sh", "-c", script).CombinedOutput()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	if text := said(); text != "" {
		t.Errorf("without an agent it says %q", text)
	}
	n.up()
	eventually(t, "it has just been asked", func() bool {
		must(t, n.as(n.config.Run, http.MethodGet, "ping", request{}))
		return said() == "0 process 1 on laptop" || said() == "1 process 1 on laptop"
	})
	eventually(t, "it has not been asked for some time", func() bool {
		text, _, _ := strings.Cut(said(), " ")
		ago, err := strconv.Atoi(text)
		return err == nil && ago >= 3
	})
	eventually(t, "this run uses it", func() bool { must(t, n.Ping(t.Context())); return said() == "" })
}
