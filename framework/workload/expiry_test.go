package workload

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestExpiry(t *testing.T) {
	own := pair(t)
	up := etcdServer(t, "client", tls.Certificate{}, own, 0)
	down := up
	down.Name, down.Address = "peer", "127.0.0.1:1"
	w, read := recording(t)
	if err := Expiry(t.Context(), etcdNode{endpoints: []framework.ServingEndpoint{up, down}}, w); err != nil {
		t.Fatal(err)
	}
	tries := 0
	for _, o := range read().Ops {
		switch op := o.V; op.Key {
		case "etcd/client":
			end, err := time.Parse(time.RFC3339, op.Value)
			if err != nil || op.Outcome != record.OK || time.Until(end) < 24*time.Hour {
				t.Errorf("%+v", op)
			}
		case "etcd/peer":
			if tries++; op.Outcome != record.Unknown || op.Error == "" {
				t.Errorf("%+v", op)
			}
		}
	}
	if tries != stepTries {
		t.Errorf("%d tries of what does not answer", tries)
	}
}
