package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestClusterChangesKilled kills each command that changes nodes with SIGKILL after each of its
// steps, and a restore, which continues regardless, after every fourth. Each time, the change is
// undone or the same command completes it; the cluster has one etcd member per node, and no
// acknowledged write is lost. With killTrials the cluster has three nodes instead of one.
func TestClusterChangesKilled(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	nodes := 1
	if killsOf(t, 1) > 1 {
		nodes = 3
	}
	const older = "v1.36.3"
	if _, err := release.Lookup(release.Kubernetes, older, release.Options{}); err != nil {
		t.Skip(err)
	}
	// API servers end watches on shutdown, rather than after 30 s.
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	spec := fmt.Sprintf("apiVersion: holdfast.dev/v1alpha1\nkind: Cluster\nspec:\n  nodes: %d\n  workers: 0\n  kubernetesVersion: %s\n"+
		"  extraArgs: {kube-apiserver: {shutdown-watch-termination-grace-period: 1s}, addon-manager: {interval: 2s}}\n", nodes, older)
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	c.up("-f", file)
	w := c.write()

	c.killedAfterEachStep(4, "scale", strconv.Itoa(nodes+1))
	c.whole(nodes + 1)
	c.killedAfterEachStep(1, "scale", strconv.Itoa(nodes))
	c.whole(nodes)
	// What is complete is not repeated. The next step may have started when the kill arrives; it
	// is completed.
	c.killedAfterSteps(nodes, 0, "upgrade", "--to", release.DefaultKubernetes)
	for _, h := range c.status().Hosts {
		for name, version := range h.Versions {
			if name == string(framework.APIServer) && version != release.DefaultKubernetes {
				t.Errorf("the API server of %s is %s", h.Name, version)
			}
		}
	}
	c.killedAfterEachStep(2, "rotate", "certificates", "--node", "node-1")
	c.killedAfterEachStep(2, "rotate", "ca")
	c.whole(nodes)
	c.appliesAddons()
	w.stop()
	w.check()

	file = filepath.Join(t.TempDir(), "snapshot.db")
	c.do(exitPass, "snapshot", "save", file)
	c.killedAfterSteps(1, 4, "snapshot", "restore", file)
	c.whole(nodes)
	w.check()
	// scale refuses to run while the etcd members do not match the nodes.
	c.do(exitPass, "scale", strconv.Itoa(nodes+1))
	c.whole(nodes + 1)
}

// killedAfterEachStep runs a command until it completes: it kills the first attempt after one
// step, the second after two, and so on, at least atLeast times.
func (c commandLine) killedAfterEachStep(atLeast int, args ...string) {
	c.t.Helper()
	c.killedAfterSteps(atLeast, 1, args...)
}

// killedAfterSteps is killedAfterEachStep with `more` additional steps each time.
func (c commandLine) killedAfterSteps(atLeast, more int, args ...string) {
	c.t.Helper()
	for killed := 0; ; killed++ {
		output, steps, done := c.killedAfter(killed*more+1, args...)
		c.t.Logf("%s, killed after %d steps:\n%s", strings.Join(args, " "), steps, output)
		if !done {
			continue
		}
		if killed < atLeast {
			c.t.Errorf("%s was killed %d times only", strings.Join(args, " "), killed)
		}
		return
	}
}

// killedAfter runs a command and kills it with SIGKILL once it has printed that many steps; done
// reports whether it completed first.
func (c commandLine) killedAfter(steps int, args ...string) (output string, seen int, done bool) {
	c.t.Helper()
	cmd := c.command(args...)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &said))
	for seen < steps && lines.Scan() {
		if before, _, ok := strings.Cut(lines.Text(), ": "); ok && strings.Contains(before, "node-") {
			seen++
		}
	}
	if seen == steps {
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, stderr)
	err = cmd.Wait()
	if err != nil && strings.Contains(said.String(), "try again later") {
		// A restore continues after the kill, and takes longer than a command waits for it.
		return c.killedAfter(steps, args...)
	}
	if err != nil && seen < steps {
		c.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return said.String(), seen, seen < steps
}

// whole waits until the cluster is ready and checks how many control-plane nodes it has.
func (c commandLine) whole(nodes int) {
	c.t.Helper()
	var s keeper.Status
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		if s = c.status(); s.Ready {
			break
		}
	}
	members := 0
	for _, h := range s.Hosts {
		if h.Etcd != nil {
			members++
		}
	}
	if !s.Ready || members != nodes {
		c.t.Errorf("%d control-plane nodes, want %d; ready: %t %q", members, nodes, s.Ready, s.Problems)
	}
}

// appliesAddons deletes an add-on, which the add-on managers create again.
func (c commandLine) appliesAddons() {
	c.t.Helper()
	client, err := c.client()
	if err != nil {
		c.t.Fatal(err)
	}
	const addon = "addon-dns"
	all := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	if err = all.Delete(c.t.Context(), addon, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		if _, err = all.Get(c.t.Context(), addon, metav1.GetOptions{}); err == nil {
			return
		}
	}
	c.t.Errorf("no add-on manager has created %s again: %v", addon, err)
}

// writer creates ConfigMaps through the cluster's forwarded address, as a user's client does.
type writer struct {
	c    commandLine
	stop func()

	mu           sync.Mutex
	acknowledged []string
	failed       int
	problem      error // of the last failed write
}

const writtenTo = "default"

func (c commandLine) client() (kubernetes.Interface, error) {
	out, said, code := c.execute("kubeconfig")
	if code != exitPass {
		return nil, errors.New(said)
	}
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimSpace(out))
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	return kubernetes.NewForConfig(config)
}

// write writes until the test ends or the writes are checked.
func (c commandLine) write() *writer {
	ctx, cancel := context.WithCancel(c.t.Context())
	w := &writer{c: c}
	var work sync.WaitGroup
	w.stop = func() { cancel(); work.Wait() }
	c.t.Cleanup(w.stop)
	work.Go(func() {
		var client kubernetes.Interface
		for i := 0; ctx.Err() == nil; i++ {
			name, err := fmt.Sprintf("written-%d", i), error(nil)
			if client == nil {
				// The CAs may have been replaced.
				client, err = c.client()
			}
			if err == nil {
				_, err = client.CoreV1().ConfigMaps(writtenTo).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			}
			w.mu.Lock()
			if err == nil {
				w.acknowledged = append(w.acknowledged, name)
			} else {
				w.failed, w.problem, client = w.failed+1, err, nil
			}
			w.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	return w
}

// check checks that no acknowledged write is lost, once the writer has stopped.
func (w *writer) check() {
	w.c.t.Helper()
	client, err := w.c.client()
	if err != nil {
		w.c.t.Fatal(err)
	}
	list, err := client.CoreV1().ConfigMaps(writtenTo).List(w.c.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.c.t.Fatal(err)
	}
	there := map[string]bool{}
	for _, cm := range list.Items {
		there[cm.Name] = true
	}
	lost := slices.DeleteFunc(slices.Clone(w.acknowledged), func(name string) bool { return there[name] })
	if len(lost) > 0 {
		w.c.t.Errorf("acknowledged and lost: %v", lost)
	}
	w.c.t.Logf("%d writes were acknowledged, %d failed, the last one: %v", len(w.acknowledged), w.failed, w.problem)
	if len(w.acknowledged) < 50 {
		w.c.t.Errorf("only %d writes were acknowledged", len(w.acknowledged))
	}
}
