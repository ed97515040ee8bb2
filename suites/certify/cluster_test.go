package certify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/local/localtest"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

func init() { program.Faults = []*fault.Fault{plantSecrets} }

// plantSecrets is not a real fault: it puts the marker where a cluster stores secrets and where
// secrets pass through in use.
var plantSecrets = &fault.Fault{
	Name: "plant-secrets", Summary: "keeps secrets in the cluster", Targets: []string{"nodes"}, Example: "nodes",
	Prepare: func(r fault.Request) (fault.Inject, error) {
		return func(ctx context.Context) (fault.Injection, error) {
			called := time.Now()
			if err := plant(ctx, r.Cluster); err != nil {
				return nil, err
			}
			return planted{r.Target, fault.Proof{Proven: true, What: "secrets are there", Called: called, Effect: time.Now()}}, nil
		}, nil
	},
}

type planted struct {
	target fault.Target
	proof  fault.Proof
}

func (p planted) Target() fault.Target                      { return p.target }
func (p planted) Proof() fault.Proof                        { return p.proof }
func (p planted) Heal(context.Context) (fault.Proof, error) { return p.proof, nil }

func plant(ctx context.Context, c framework.Cluster) error {
	entrance := c.Entrances()[0]
	client, err := kubernetes.NewForConfig(rest.CopyConfig(entrance.Config))
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "planted"}, StringData: map[string]string{"password": marker}}
	if _, err := client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err != nil {
		return err
	}
	// A client sends a token that the API servers do not know, and they refuse it.
	stranger := rest.AnonymousClientConfig(entrance.Config)
	stranger.BearerToken = marker + "-token"
	if client, err = kubernetes.NewForConfig(stranger); err != nil {
		return err
	}
	if _, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err == nil {
		return fmt.Errorf("an unknown token was accepted")
	}
	config, err := c.(framework.EtcdAccess).EtcdConfig(c.Nodes()[0].Name())
	if err != nil {
		return err
	}
	member, err := clientv3.New(config)
	if err != nil {
		return err
	}
	_, err = member.Put(ctx, "/planted", marker)
	return errors.Join(err, member.Close())
}

const planting = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: planting}
spec:
  timeline:
  - inject: {fault: plant-secrets, target: nodes, as: secrets}
  - action: {name: tokens}
  - action: {name: unknown-readers}
  - wait: 3s
  - heal: secrets
  requirements:
  - {id: HA-TOP-002, judge: control-plane-complete}
`

// Secrets stored in a cluster, or sent to it, are in no file of a bundle, and in no report or record
// beside it.
func TestBundleOfCluster(t *testing.T) {
	spec := clusters.Default()
	spec.SetNodes(1)
	localtest.NeedClusters(t, spec)
	t.Setenv("PLANTED_TOKEN", marker+"-environment")
	s, err := scenarios.Parse("planting", []byte(planting), scenarios.WithFaults(plantSecrets))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	p := run.New(local.Provider{}, spec, []*scenarios.Scenario{s}, 7, "v1")
	p.Rows = []string{"HA-TOP-002"}
	if err := p.Divide(local.Provider{}, 1); err != nil {
		t.Fatal(err)
	}
	v, err := p.CarryOut(t.Context(), local.Provider{}, out, run.Show{Line: t.Logf, Board: func(*run.Plan) (run.Board, error) { return board{t}, nil }})
	if err != nil || p.Problem != "" {
		t.Fatalf("%v, %s", err, p.Problem)
	}
	if hits := hit(v.Record("planting"), nodesOf(p)); len(hits) != 1 {
		t.Fatalf("nothing was planted: %v", hits)
	}
	file, err := Bundle(out, v, Judge(v), Tool{Version: "v1"}, testKey(t))
	if err != nil {
		t.Fatal(err)
	}
	files := searched(t, file, marker)
	beside := filesIn(t, out, raw)
	search(t, beside, marker)
	if beside[reports.HTMLFile] == "" || beside["record/planting/"+record.FileName] == "" {
		t.Errorf("neither the report nor the record is among %d files", len(beside))
	}
	if log := files["logs/cluster-1/node-1/kube-apiserver.log.zst"]; len(log) == 0 {
		t.Errorf("no log of the API server among %d files", len(files))
	}
	if left, err := filepath.Glob(filepath.Join(out, ".bundle*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 10<<20 {
		t.Errorf("the bundle: %v, %v", info, err)
	}
}

// board logs progress.
type board struct{ t *testing.T }

func (b board) Says(part, line string)             { b.t.Log(part, line) }
func (b board) Begins(part, scenario string)       { b.t.Log(part, "begins", scenario) }
func (b board) Settled(part string, s run.Settled) { b.t.Log(part, "settled", s.Scenario, s.Problem) }
func (b board) Ended(string)                       {}
func (b board) Fewer(int)                          {}
func (b board) Close()                             {}
