package undo

import (
	"bytes"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// codec encodes leases as API servers store them.
func codec(t testing.TB) *protobuf.Serializer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return protobuf.NewSerializer(scheme, scheme)
}

// lease returns one with every field.
func lease(holder string) *coordinationv1.Lease {
	began := metav1.NewMicroTime(time.Unix(1_000_000, 1000))
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler", UID: "1", Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-scheduler", FieldsV1: metav1.NewFieldsV1("{}")}}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), AcquireTime: &began, RenewTime: &began,
			LeaseTransitions: new(int32(7)), Strategy: new(coordinationv1.OldestEmulationVersion), PreferredHolder: new("another")},
	}
}

func stored(t testing.TB, l *coordinationv1.Lease) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := codec(t).Encode(l, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReleased(t *testing.T) {
	t.Parallel()
	now := time.Unix(2_000_000, 3000)
	value, ok := released(stored(t, lease("stranger")), "stranger", now)
	if !ok {
		t.Fatal("it is not released")
	}
	got := &coordinationv1.Lease{}
	if _, _, err := codec(t).Decode(value, nil, got); err != nil {
		t.Fatal(err)
	}
	want, began := lease(""), metav1.NewMicroTime(now)
	want.Spec.LeaseDurationSeconds, want.Spec.AcquireTime, want.Spec.RenewTime = new(int32(1)), &began, &began
	if !equality.Semantic.DeepEqual(got.ObjectMeta, want.ObjectMeta) || !equality.Semantic.DeepEqual(got.Spec, want.Spec) {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	without := lease("stranger")
	without.Spec = coordinationv1.LeaseSpec{}
	for name, value := range map[string][]byte{
		"another holder": stored(t, lease("strangers")), "no holder": stored(t, without),
		"JSON": []byte(`{"spec":{"holderIdentity":"stranger"}}`), "encrypted": []byte("k8s:enc:aescbc:v1:key:x"), "empty": nil,
		"cut off": stored(t, lease("stranger"))[:40],
	} {
		if value, ok := released(value, "stranger", now); ok {
			t.Errorf("%s: it is released: %q", name, value)
		}
	}
}

// FuzzReleased: what is released can be read if it could before, and has no holder. Nothing else
// about it is changed.
func FuzzReleased(f *testing.F) {
	f.Add(stored(f, lease("stranger")))
	f.Add(stored(f, lease("another")))
	f.Add([]byte("k8s\x00\n"))
	f.Fuzz(func(t *testing.T, value []byte) {
		now := metav1.NewMicroTime(time.Unix(1, 0))
		got, ok := released(value, "stranger", now.Time)
		before, after := &coordinationv1.Lease{}, &coordinationv1.Lease{}
		if _, _, err := codec(t).Decode(value, nil, before); !ok || err != nil {
			return
		}
		if _, _, err := codec(t).Decode(got, nil, after); err != nil {
			t.Fatalf("%q cannot be read after it was released: %v", value, err)
		}
		before.Spec.HolderIdentity, before.Spec.LeaseDurationSeconds, before.Spec.AcquireTime, before.Spec.RenewTime = new(""), new(int32(1)), &now, &now
		if !equality.Semantic.DeepEqual(before, after) {
			t.Errorf("%q is %+v after it was released, want %+v", value, after, before)
		}
	})
}
