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

func TestScheduledPod(t *testing.T) {
	const uid, static, container = "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "0123456789abcdef0123456789abcdef", "/cri-containerd-5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef.scope\n"
	const slice = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice"
	for _, tc := range []struct{ cgroup, want string }{
		{"", ""},
		{"0::/system.slice/containerd.service\n", ""},
		{slice + container, uid},
		{"12:pids:/\n11:memory:/kubepods/pod" + uid + "/5f70bf18a086\n", uid},
		{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + static + ".slice" + container, ""},
		{"0::/kubepods/burstable/pod" + static + "/5f70bf18a086\n", ""},
		{slice + "/crio-1.scope/kubelet/kubepods/pod" + static + "/5f70bf18a086\n", ""}, // the node is a pod
		{"0::/my-pod-1\n", ""},
	} {
		if got := ScheduledPod(tc.cgroup); got != tc.want {
			t.Errorf("%q is of pod %q, want %q", tc.cgroup, got, tc.want)
		}
	}
}
