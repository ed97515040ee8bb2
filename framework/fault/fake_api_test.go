package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeAPIServer answers requests as the state of its node allows.
type fakeAPIServer struct{ n *fakeNode }

// startTime is how long a fake component takes from its start until it answers.
const startTime = 200 * time.Millisecond

// reach returns nil once the harness reaches a component that answers.
func (n *fakeNode) reach(ctx context.Context, c framework.Component, port uint16) error {
	n.c.mu.Lock()
	p, known := n.processes[c]
	silent := n.off || n.paused || n.c.severed("harness", n.name, port) || known && p.State == "T"
	refused := !known || p.PID == 0 || time.Since(p.Started) < startTime
	n.c.mu.Unlock()
	switch {
	case silent:
		<-ctx.Done()
		return fmt.Errorf("no answer: %w", ctx.Err())
	case refused:
		return errors.New("connection refused")
	}
	return nil
}

func (s *fakeAPIServer) CloseIdleConnections() {}

func (s *fakeAPIServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := s.n.reach(r.Context(), framework.APIServer, 6443); err != nil {
		return nil, err
	}
	if r.URL.Path == "/readyz" {
		return answer(http.StatusOK, []byte("ok")), nil
	}
	s.n.c.mu.Lock()
	defer s.n.c.mu.Unlock()
	lease, ok := s.n.c.leases[path.Base(r.URL.Path)]
	if !ok {
		return answer(http.StatusNotFound, []byte("not found")), nil
	}
	body, err := json.Marshal(lease)
	return answer(http.StatusOK, body), err
}

func answer(status int, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{}}
}

// hold gives a component's lease to a node.
func (c *fakeCluster) hold(name, node string, acquired, renewed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	identity, seconds := node+"_0a1b2c3d", int32(15)
	c.leases[name] = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds,
			AcquireTime: &metav1.MicroTime{Time: acquired}, RenewTime: &metav1.MicroTime{Time: renewed}}}
}
