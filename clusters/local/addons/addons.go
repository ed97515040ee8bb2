// Package addons is an add-on manager: a program on each control-plane node that keeps the
// objects in the cluster as the files on its node's disk describe them.
//
// Like Kubernetes' own (cluster/addons/addon-manager), the managers of several nodes do not
// know of each other: each compares every add-on with its own file once per interval, and
// applies the file if they differ. While nodes have files of different releases they
// therefore overwrite each other's add-ons; once all files are the same they have nothing
// left to do.
package addons

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/template"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// passLimit is how long one pass over all add-ons may take.
const passLimit = 10 * time.Second

//go:embed addons.yaml
var manifests string

// Write writes the add-ons of a release of Kubernetes ("v1.37.1") into a directory, which it
// makes if needed, a file for each. A manager that reads one of them meanwhile finds the old
// or the new one.
func Write(dir, release string) error {
	var all bytes.Buffer
	if err := template.Must(template.New("").Parse(manifests)).Execute(&all, release); err != nil {
		return fmt.Errorf("failed to make the add-ons of %s: %w", release, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("failed to write the add-ons of %s: %w", release, err)
	}
	for i, doc := range bytes.Split(all.Bytes(), []byte("\n---\n")) {
		path := filepath.Join(dir, fmt.Sprintf("addon-%d.yaml", i+1))
		if err := system.ReplaceFile(path, doc, 0o600, false); err != nil {
			return fmt.Errorf("failed to write the add-ons of %s: %w", release, err)
		}
	}
	return nil
}

// Main is the manager as a program: its arguments are a kubeconfig, the directory of the
// files, and the interval between two passes. It returns on SIGINT or SIGTERM.
func Main(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: holdfast-addons KUBECONFIG DIRECTORY INTERVAL")
	}
	interval, err := time.ParseDuration(args[2])
	if err != nil {
		return fmt.Errorf("failed to read the interval: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("failed to read the kubeconfig %s: %w", args[0], err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client from the kubeconfig %s: %w", args[0], err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m := manager{client: client, dir: args[1]}
	for ticks := time.NewTicker(interval); ; {
		if err := m.pass(ctx); err != nil && ctx.Err() == nil {
			say("%v; trying again in %s", err, interval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

type manager struct {
	client dynamic.Interface
	dir    string
}

// pass applies each file whose add-on differs from it.
func (m manager) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(m.dir, "*.yaml"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range slices.Sorted(slices.Values(files)) {
		if err := m.keep(ctx, file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	return errors.Join(errs...)
}

// keep makes one add-on what its file says.
func (m manager) keep(ctx context.Context, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	want := &unstructured.Unstructured{}
	if b, err = yaml.YAMLToJSON(b); err == nil {
		err = want.UnmarshalJSON(b)
	}
	if err != nil {
		return fmt.Errorf("failed to read the add-on: %w", err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(want.GroupVersionKind())
	objects := m.client.Resource(resource).Namespace(want.GetNamespace())
	live, err := objects.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case err == nil && covers(live.Object, want.Object):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("failed to read %s %s: %w", resource.Resource, want.GetName(), err)
	}
	// Another manager has the same name, as all instances of one controller do, and may have
	// written what is overwritten here.
	if _, err := objects.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: "addon-manager", Force: true}); err != nil {
		return fmt.Errorf("failed to apply %s %s: %w", resource.Resource, want.GetName(), err)
	}
	say("applied %s %s", resource.Resource, want.GetName())
	return nil
}

// covers reports whether a live object has every field of a file. What the API server or
// another client added besides does not count.
func covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		for key, value := range want {
			ok = ok && covers(live[key], value)
		}
		return ok
	case []any:
		live, ok := live.([]any)
		return ok && slices.EqualFunc(live, want, covers)
	}
	return live == want
}
