package agent

import (
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
		st.Impaired["x"] = &impairedState{Until: at}
	})
	want := []string{
		"certificates of kube-apiserver are defective until 03:04:05", "etcd is frozen until 03:04:05",
		"kube-scheduler is held down until 03:04:05", "links are impaired until 03:04:05", "the data of etcd are wiped until 03:04:05",
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
	for _, path := range []string{letGoScript, "/etc/kubernetes/" + asideDir, BinaryPath, ConnectPath, KeepPath, UnitPath, defaultDir} {
		if !strings.Contains(TakeOut(), path) {
			t.Errorf("%s stays", path)
		}
	}
}
