package engine

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestCheckPrivileged(t *testing.T) {
	l := newLab(t)
	t.Setenv("DOCKER_HOST", l.answering("named.sock", "20.10.24"))
	e, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivileged(t.Context(), e); err != nil {
		t.Error(err)
	}
	l.set("refuse", "docker: Error response from daemon: OCI runtime create failed: unable to apply caps: operation not permitted: unknown.")
	l.set("calls", "")
	err = CheckPrivileged(t.Context(), e)
	if !errors.As(err, new(*PrivilegedError)) {
		t.Fatal(err)
	}
	for _, want := range []string{e.Host, "unable to apply caps", "CAP_SYS_RESOURCE", "holdfast kind engine start", "unset it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	calls := l.told("calls")
	for _, want := range []string{"import -\n", " --privileged ", " --network none ", " --cgroupns private ", "sha256:probe /holdfast-probe\n",
		"rm --force --volumes holdfast-probe-", "rmi --force sha256:probe\n"} {
		if !strings.Contains(calls, want) {
			t.Errorf("the Docker client was not asked for %q:\n%s", want, calls)
		}
	}
	if strings.Contains(calls, "--userns") {
		t.Error("a user namespace is chosen though the engine has but one")
	}
	e.UserNamespace = true
	if args := strings.Join(e.probeArgs("n", "i"), " "); !strings.Contains(args, "--userns host") {
		t.Errorf("%s", args)
	}
}

func TestPrivilegedAdvice(t *testing.T) {
	for said, means := range map[string]string{
		"OCI runtime create failed: runc create failed: unable to start container process: unable to apply caps: operation not permitted": "CAP_SYS_RESOURCE",
		"write /var/lib/docker/tmp/x: no space left on device":                                                                            "disk",
		"failed to write \"c 1:3 rwm\": write /sys/fs/cgroup/devices/docker/x/devices.allow: operation not permitted":                     "device rules",
		"OCI runtime create failed: unable to apply cgroup configuration: mkdir /sys/fs/cgroup/cpuset/docker: read-only file system":      "control groups",
		"docker: Error response from daemon: privileged mode is incompatible with user namespaces":                                        "userns-remap",
		"permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock":                            "this user",
		"error mounting \"proc\" to rootfs: mount proc:/proc: operation not permitted":                                                    "lacks privileges",
		"exec /holdfast-probe: exec format error":                                                                                         "architecture",
		"something new": "holdfast kind engine start",
	} {
		advice := Engine{Source: SourceContext}.privilegedAdvice(said)
		if !strings.Contains(advice, means) || !strings.Contains(advice, "holdfast kind engine start") {
			t.Errorf("%s: %s", said, advice)
		}
		if own := (Engine{Source: SourceHoldfast, Log: "/its.log"}).privilegedAdvice(said); strings.Contains(own, "kind engine start") || !strings.Contains(own, "/its.log") {
			t.Errorf("holdfast's own engine is to take its own place: %s", own)
		}
	}
}

func TestProbeImage(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		image, err := probeImage(arch)
		if err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(bytes.NewReader(image))
		h, err := r.Next()
		if err != nil || h.Name != probeFile || h.Mode != 0o755 {
			t.Fatalf("%+v, %v", h, err)
		}
		program, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(program))
		if err != nil || f.Machine != machine || f.Type != elf.ET_EXEC {
			t.Fatalf("%s: %+v, %v", arch, f, err)
		}
		if arch != runtime.GOARCH {
			continue
		}
		file := filepath.Join(t.TempDir(), "probe")
		if err := os.WriteFile(file, program, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(file)
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != probeExit {
			t.Errorf("the probe ends with %s", cmd.ProcessState)
		}
	}
	if _, err := probeImage("riscv64"); err == nil || !strings.Contains(err.Error(), "riscv64") {
		t.Errorf("%v", err)
	}
}
