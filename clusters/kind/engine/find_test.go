package engine

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// answering has something answer as an engine does, and returns its address.
func (l *lab) answering(name, version string) string {
	l.t.Helper()
	listener, err := net.Listen("unix", filepath.Join(l.bin, name))
	if err != nil {
		l.t.Skipf("listening: %v", err) // where the path of temporary files is long
	}
	l.t.Cleanup(func() { listener.Close() })
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"ServerVersion":"` + version + `","Driver":"overlay2","CgroupVersion":"2","CgroupDriver":"systemd","DockerRootDir":"/var/lib/docker"}`))
	}))
	return "unix://" + filepath.Join(l.bin, name)
}

func TestFind(t *testing.T) {
	l := newLab(t)
	if e, err := Find(t.Context()); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "Cannot connect") || !strings.Contains(err.Error(), "default.sock") {
		t.Errorf("%+v, %v", e, err)
	}
	host := l.answering("default.sock", "28.2.2")
	e, err := Find(t.Context())
	if err != nil || e.Host != host || e.Source != SourceContext || e.Version != "28.2.2" || e.CgroupVersion != "2" {
		t.Errorf("%+v, %v", e, err)
	}
	if env := strings.Join(e.Environ(), "\n"); strings.Contains(env, "DOCKER_HOST") {
		t.Error("the client's own choice of an engine is overruled")
	}
	if e, err := Ensure(t.Context(), Config{}); err != nil || e.Source != SourceContext {
		t.Errorf("%+v, %v", e, err)
	}

	other := l.answering("other.sock", "27.0.1")
	t.Setenv("DOCKER_HOST", other)
	if e, err := Find(t.Context()); err != nil || e.Host != other || e.Source != SourceEnvironment || e.Version != "27.0.1" {
		t.Errorf("%+v, %v", e, err)
	}
	t.Setenv("DOCKER_HOST", "unix:///nobody/listens")
	if _, err := Find(t.Context()); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "unset DOCKER_HOST") {
		t.Errorf("an engine that was named and does not answer: %v", err)
	}
	if _, err := Ensure(t.Context(), Config{}); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("another engine takes the place of the one that was named: %v", err)
	}

	t.Setenv("PATH", t.TempDir())
	if _, err := Find(t.Context()); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("without a client: %v", err)
	}
}

// An engine that cannot do it is not replaced where it was named.
func TestEnsureKeepsToWhatWasNamed(t *testing.T) {
	l := newLab(t)
	t.Setenv("DOCKER_HOST", l.answering("named.sock", "20.10.24"))
	l.set("refuse", "OCI runtime create failed: unable to apply caps: operation not permitted")
	_, err := Ensure(t.Context(), Config{})
	var refused *PrivilegedError
	if !errors.As(err, &refused) || refused.Engine.Source != SourceEnvironment {
		t.Errorf("%v", err)
	}
}

func TestParseInfo(t *testing.T) {
	for _, test := range []struct {
		name, out string
		want      info
		err       string
	}{
		{"20.10", `{"ServerVersion":"20.10.24+dfsg1","Driver":"overlay2","CgroupDriver":"cgroupfs","CgroupVersion":"1","SecurityOptions":["name=seccomp,profile=default"],"DockerRootDir":"/d","Warnings":null}`,
			info{ServerVersion: "20.10.24+dfsg1", Driver: "overlay2", CgroupVersion: "1"}, ""},
		{"older", `{"ServerVersion":"19.03.1","Driver":"overlay2"}`, info{ServerVersion: "19.03.1", Driver: "overlay2", CgroupVersion: "1"}, ""},
		{"not there, says 20.10", `{"ServerErrors":["Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"],"ClientInfo":{}}`, info{}, "Cannot connect"},
		{"not there, says 28", `{"ID":"","Containers":0,"ServerVersion":""}`, info{}, "version of the engine"},
		{"no JSON", "panic: " + strings.Repeat("x", 1000), info{}, `begins with "panic: ` + strings.Repeat("x", 193) + `":`},
		{"nothing", "", info{}, "unexpected output"},
	} {
		got, err := parseInfo([]byte(test.out))
		if test.err == "" && (err != nil || got.ServerVersion != test.want.ServerVersion || got.Driver != test.want.Driver || got.CgroupVersion != test.want.CgroupVersion) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	secured := info{SecurityOptions: []string{"name=seccomp,profile=default", "name=rootless", "name=cgroupns"}}
	if !secured.secured("rootless") || secured.secured("userns") {
		t.Error("the security options are read wrongly")
	}
}

func TestReachable(t *testing.T) {
	for _, test := range []struct {
		engine Engine
		want   string
	}{
		{Engine{Host: "unix:///var/run/docker.sock"}, ""},
		{Engine{Host: "unix:///run/user/1000/docker.sock", Rootless: true}, "rootless"},
		{Engine{Host: "unix:///home/u/.docker/desktop/docker.sock", desktop: true}, "virtual machine"},
		{Engine{Host: "ssh://root@build"}, "another machine"},
		{Engine{Host: "tcp://127.0.0.1:2375"}, "another machine"},
	} {
		err := test.engine.Reachable()
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", test.engine.Host, err)
		}
	}
}

func TestEnviron(t *testing.T) {
	for name, value := range map[string]string{"DOCKER_HOST": "tcp://other:2376", "DOCKER_CONTEXT": "other", "DOCKER_TLS_VERIFY": "1", "DOCKER_CONFIG": "/config"} {
		t.Setenv(name, value)
	}
	own := strings.Join(Engine{Host: "unix:///own", Source: SourceHoldfast}.Environ(), "\n") + "\n"
	for _, not := range []string{"tcp://other", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"} {
		if strings.Contains(own, not) {
			t.Errorf("%s is in the environment of a client of holdfast's engine", not)
		}
	}
	if !strings.Contains(own, "DOCKER_HOST=unix:///own\n") || !strings.Contains(own, "DOCKER_CONFIG=/config\n") {
		t.Errorf("the environment is %s", own)
	}
	if named := strings.Join(Engine{Source: SourceEnvironment}.Environ(), "\n"); !strings.Contains(named, "DOCKER_TLS_VERIFY=1") {
		t.Error("the settings for the engine that was named are gone")
	}
}
