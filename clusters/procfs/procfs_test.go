package procfs

import (
	"os"
	"testing"
	"time"
)

func TestReadStat(t *testing.T) {
	st, err := ReadStat("/proc", os.Getpid())
	if err != nil || st.Parent != os.Getppid() || st.State == "" {
		t.Fatalf("%+v, %v", st, err)
	}
	began, err := Started(st.StartTicks)
	if err != nil || began.After(time.Now()) || time.Since(began) > time.Hour {
		t.Errorf("started at %s, %v", began, err)
	}
	pids, err := Find("/proc", func(args []string) bool { return len(args) == len(os.Args) && args[0] == os.Args[0] })
	if err != nil || len(pids) != 1 || pids[0] != os.Getpid() {
		t.Errorf("found %v, %v", pids, err)
	}
}
