package addons

import (
	"context"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestCovers(t *testing.T) {
	type object = map[string]any
	want := object{"metadata": object{"labels": object{"release": "v2"}}, "spec": object{"replicas": int64(1), "ports": []any{object{"port": int64(53)}}}}
	for _, tt := range []struct {
		name string
		live object
		is   bool
	}{
		{"nothing", object{}, false},
		{"the same", want, true},
		{"defaults beside it", object{"metadata": object{"labels": object{"release": "v2", "other": "x"}, "uid": "1"},
			"spec": object{"replicas": int64(1), "ports": []any{object{"port": int64(53), "protocol": "UDP"}}}, "status": object{}}, true},
		{"another release", object{"metadata": object{"labels": object{"release": "v1"}}, "spec": want["spec"]}, false},
		{"a field is gone", object{"metadata": want["metadata"], "spec": object{"replicas": int64(1)}}, false},
		{"a list is longer", object{"metadata": want["metadata"], "spec": object{"replicas": int64(1), "ports": []any{object{"port": int64(53)}, object{"port": int64(54)}}}}, false},
		{"another type", object{"metadata": "x", "spec": want["spec"]}, false},
	} {
		if is := covers(tt.live, want); is != tt.is {
			t.Errorf("%s: %v", tt.name, is)
		}
	}
}

// Two managers with the same files have nothing to do after one pass; with files of two
// releases each overwrites the other.
func TestPass(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{})
	live := map[string]*unstructured.Unstructured{}
	applied := 0
	key := func(a clienttesting.Action, name string) string { return a.GetResource().Resource + "/" + name }
	client.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if o := live[key(a, a.(clienttesting.GetAction).GetName())]; o != nil {
			return true, o, nil
		}
		return false, nil, nil
	})
	client.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(patch.GetPatch()); err != nil {
			return true, nil, err
		}
		live[key(a, patch.GetName())] = o
		applied++
		return true, o, nil
	})
	node := func(release string) manager {
		dir := filepath.Join(t.TempDir(), "addons")
		if err := Write(dir, release); err != nil {
			t.Fatal(err)
		}
		return manager{client, dir}
	}
	old, other := node("v1.36.3"), node("v1.36.3")
	pass := func(m manager, want int) {
		t.Helper()
		before := applied
		if err := m.pass(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := applied - before; n != want {
			t.Errorf("%d applied, want %d", n, want)
		}
	}
	pass(old, 3)
	pass(other, 0)
	if err := Write(other.dir, "v1.37.1"); err != nil {
		t.Fatal(err)
	}
	pass(other, 3)
	pass(old, 3)
	pass(other, 3)
	if err := Write(old.dir, "v1.37.1"); err != nil {
		t.Fatal(err)
	}
	pass(old, 0)
	for name, o := range live {
		if o.GetLabels()["addons.holdfast.dev/release"] != "v1.37.1" {
			t.Errorf("%s is of %v", name, o.GetLabels())
		}
	}
}
