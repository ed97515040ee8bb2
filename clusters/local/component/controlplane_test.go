package component

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// kubernetesDir names a directory with Kubernetes binaries, and kwok if
	// that is to be tested too.
	kubernetesDir = "HOLDFAST_TEST_KUBERNETES_DIR"
	// inside is set, to the number of nodes, in the copy of the test that
	// runs in namespaces of its own.
	inside = "HOLDFAST_TEST_INSIDE"
)

// TestControlPlane starts real control planes, each in namespaces of its own,
// and lets them do some work.
func TestControlPlane(t *testing.T) {
	if os.Getenv(kubernetesDir) == "" {
		t.Skipf("%s names no directory with Kubernetes binaries", kubernetesDir)
	}
	if nodes, err := strconv.Atoi(os.Getenv(inside)); err == nil {
		runControlPlane(t, nodes)
		return
	}
	for _, nodes := range []string{"1", "3"} {
		t.Run(nodes, func(t *testing.T) {
			again := exec.Command("/proc/self/exe", "-test.run=^TestControlPlane$", "-test.v", "-test.timeout=120s")
			again.Env = append(os.Environ(), inside+"="+nodes)
			again.SysProcAttr = &syscall.SysProcAttr{
				// As the first process of a PID namespace it takes all that
				// it started along when it ends.
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
				Pdeathsig:   syscall.SIGKILL,
			}
			out, err := again.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// controlPlane is a running control plane.
type controlPlane struct {
	t       *testing.T
	dir     string
	pki     *pki.PKI
	nodes   []Node
	started time.Time
}

func runControlPlane(t *testing.T, size int) {
	c := &controlPlane{t: t, dir: t.TempDir()}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	var members []Member
	for i := range size {
		address := netip.AddrFrom4([4]byte{10, 77, 0, byte(11 + i)})
		addr, _ := netlink.ParseAddr(address.String() + "/24")
		if err := netlink.AddrAdd(lo, addr); err != nil {
			t.Fatal(err)
		}
		members = append(members, Member{Name: fmt.Sprintf("node-%d", i+1), Address: address})
	}

	c.started = time.Now()
	if c.pki, err = pki.New(pki.Options{Cluster: "demo", Service: netip.MustParseAddr("10.96.0.1")}); err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		dir := filepath.Join(c.dir, member.Name)
		n := Node{
			Cluster: "demo", Name: member.Name, Address: member.Address, Members: members, OnlyNodeAddress: true,
			PKI: filepath.Join(dir, "pki"), Config: filepath.Join(dir, "config"), Data: filepath.Join(dir, "etcd"), Logs: filepath.Join(dir, "logs"),
		}
		c.nodes = append(c.nodes, n)
		if err := c.pki.WriteNode(n.PKI, n.Name, APIServerURL(n.Address), []netip.Addr{n.Address}); err != nil {
			t.Fatal(err)
		}
	}
	c.startNodes()

	config, err := c.pki.RESTConfig(pki.Admin(), APIServerURL(c.nodes[0].Address))
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	c.checkLeases(client)
	c.checkAccess()
	c.checkEndpoints(client)
	c.checkControllers(client)
	c.checkKubectl()
	c.checkAudit()
	c.checkKwok(client)
}

// startNodes starts all nodes concurrently, each in its own order.
func (c *controlPlane) startNodes() {
	var nodes sync.WaitGroup
	for _, n := range c.nodes {
		nodes.Go(func() {
			healthy := map[framework.Component]bool{}
			commands := Commands(n)
			wait := func(command Command) {
				if !healthy[command.Component] && !c.t.Failed() {
					c.waitHealthy(n.Name, command)
				}
				healthy[command.Component] = true
			}
			for _, command := range commands {
				for _, before := range commands {
					if before.Component == command.StartAfter {
						wait(before)
					}
				}
				c.start(n.Name, command)
			}
			for _, command := range commands {
				wait(command)
			}
		})
	}
	nodes.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	c.log("all healthy")
}

func (c *controlPlane) log(format string, args ...any) {
	c.t.Helper()
	c.t.Logf("%6.2fs %s", time.Since(c.started).Seconds(), fmt.Sprintf(format, args...))
}

// start starts a component; it dies with the test's PID namespace.
func (c *controlPlane) start(node string, command Command) {
	c.t.Helper()
	for _, dir := range command.Dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	for path, data := range command.Files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	binary, env := filepath.Join(os.Getenv(kubernetesDir), command.Binary), []string{"PATH=/usr/bin:/bin"}
	if command.Component == framework.Etcd {
		binary, env = "/proc/self/exe", append(env, asEtcd+"=1")
	}
	log, err := os.Create(filepath.Join(c.dir, node+"-"+command.Binary+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	process := exec.Command(binary, command.Args...)
	process.Env, process.Stdout, process.Stderr = env, log, log
	if err := process.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		err := process.Wait()
		fmt.Printf("%s of %s has ended: %v\n", command.Binary, node, err)
	}()
	c.t.Cleanup(func() {
		process.Process.Kill()
		if keep := os.Getenv("HOLDFAST_TEST_KEEP_LOGS"); keep != "" {
			data, _ := os.ReadFile(log.Name())
			os.WriteFile(filepath.Join(keep, filepath.Base(log.Name())), data, 0o644)
		}
	})
}

// anonymous is a client without a certificate. What it checks is health, not
// whom it talks to.
func anonymous() *http.Client {
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
}

func (c *controlPlane) waitHealthy(node string, command Command) {
	c.t.Helper()
	c.eventually(command.Binary+" of "+node+" is healthy", func() error {
		response, err := anonymous().Get(command.Health)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	})
	c.log("%s of %s is healthy", command.Binary, node)
}

// eventually waits for a condition; on failure it shows the ends of all logs.
func (c *controlPlane) eventually(what string, condition func() error) {
	c.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
			for _, path := range logs {
				data, _ := os.ReadFile(path)
				c.t.Logf("%s:\n%s", filepath.Base(path), data[max(0, len(data)-3000):])
			}
			// Not Fatal, since nodes start in goroutines of their own.
			c.t.Errorf("waited in vain until %s: %v", what, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *controlPlane) checkLeases(client kubernetes.Interface) {
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		c.eventually(name+" has a holder", func() error {
			lease, err := client.CoordinationV1().Leases("kube-system").Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return fmt.Errorf("no instance holds it")
			}
			return nil
		})
	}
	c.log("both leases are held")
}

// checkAccess checks whether strangers may see health and nothing else.
func (c *controlPlane) checkAccess() {
	for path, want := range map[string]int{"/readyz": 200, "/livez": 200, "/api/v1/namespaces": 403, "/metrics": 403} {
		response, err := anonymous().Get(APIServerURL(c.nodes[0].Address) + path)
		if err != nil {
			c.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			c.t.Errorf("a stranger gets %d for %s, want %d", response.StatusCode, path, want)
		}
	}
	if response, err := anonymous().Get(EtcdURL(c.nodes[0].Address) + "/health"); err == nil {
		response.Body.Close()
		c.t.Error("etcd serves a client without a certificate")
	}
}

func (c *controlPlane) checkEndpoints(client kubernetes.Interface) {
	c.eventually("the kubernetes service has every address", func() error {
		slice, err := client.DiscoveryV1().EndpointSlices("default").Get(context.Background(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(slice.Endpoints) != len(c.nodes) {
			return fmt.Errorf("it has %v", slice.Endpoints)
		}
		return nil
	})
	c.log("the kubernetes service has %d addresses", len(c.nodes))
}

// checkKubectl is about the kubeconfig on the node, as a person would use it.
func (c *controlPlane) checkKubectl() {
	kubectl := exec.Command(filepath.Join(os.Getenv(kubernetesDir), "kubectl"), "get", "namespaces", "-o", "name")
	kubectl.Env = []string{"KUBECONFIG=" + filepath.Join(c.nodes[0].PKI, pki.AdminConfig), "HOME=" + c.dir}
	out, err := kubectl.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("namespace/kube-system")) {
		c.t.Errorf("kubectl get namespaces: %v\n%s", err, out)
	}
}

func (c *controlPlane) checkAudit() {
	c.eventually("the audit log holds the creation of the deployment", func() error {
		var all []byte
		for _, n := range c.nodes {
			data, err := os.ReadFile(filepath.Join(n.Logs, auditLog))
			if err != nil {
				return err
			}
			all = append(all, data...)
		}
		for _, line := range strings.Split(string(all), "\n") {
			if strings.Contains(line, `"verb":"create"`) && strings.Contains(line, `"resource":"deployments"`) {
				if !strings.Contains(line, `"level":"Metadata"`) || strings.Contains(line, "requestObject") {
					c.t.Errorf("not at level Metadata: %s", line)
				}
				return nil
			}
		}
		return fmt.Errorf("%d bytes without it", len(all))
	})
}

// checkKwok needs kwok beside the Kubernetes binaries.
func (c *controlPlane) checkKwok(client kubernetes.Interface) {
	if _, err := os.Stat(filepath.Join(os.Getenv(kubernetesDir), "kwok")); err != nil {
		c.log("kwok is not there, and not tested")
		return
	}
	address := c.nodes[0].Address
	w := Workers{Address: address, Config: filepath.Join(c.dir, "kwok"), Kubeconfig: filepath.Join(c.dir, "kwok.conf")}
	kubeconfig, err := c.pki.Kubeconfig(pki.Kwok(), APIServerURL(address))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(w.Kubeconfig, kubeconfig, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.start("workers", Kwok(w))
	objects, err := WorkerNodes(2)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, object := range objects {
		if err := client.CoreV1().RESTClient().Post().Resource("nodes").Body(object).Do(context.Background()).Error(); err != nil {
			c.t.Fatal(err)
		}
	}
	c.waitHealthy("workers", Kwok(w))
	c.eventually("both pods run", func() error {
		pods, err := client.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := 0
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning && strings.HasPrefix(pod.Spec.NodeName, "worker-") {
				running++
			}
		}
		if running != 2 {
			return fmt.Errorf("%d do", running)
		}
		return nil
	})
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(context.Background(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 2 {
		c.t.Errorf("want 2 node leases: %v %v", leases, err)
	}
	c.log("pods run on simulated nodes")
}
