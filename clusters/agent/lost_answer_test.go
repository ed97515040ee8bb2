package agent

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestLostAnswer: a client that gave up does not know the handle of its fault and could not end it, so
// the agent does.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "etcd")
	db := filepath.Join(data, "member", "snap", "db")
	mkdir(t, filepath.Dir(db))
	write(t, db, "data")
	a, err := newAgent(Config{Socket: filepath.Join(dir, "agent.sock"), Dir: filepath.Join(dir, "state"), EtcdData: data,
		Components: []Component{{Name: framework.Etcd, Exec: &Exec{Args: []string{"etcd-" + filepath.Base(dir) + "-of-no-one"}}}}})
	must(t, err)
	t.Cleanup(a.close)
	gone, over := make(chan struct{}, 1), make(chan struct{}, 1)
	l, err := net.Listen("unix", a.config.Socket)
	must(t, err)
	go func() {
		handler := a.handler(nil)
		_ = agenthttp.Serve(t.Context(), l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			context.AfterFunc(r.Context(), func() { gone <- struct{}{} })
			handler.ServeHTTP(w, r)
			over <- struct{}{}
		}))
	}()
	c := NewLocalClient("node-1", a.config.Socket)
	t.Cleanup(c.Close)
	for name, tc := range map[string]struct {
		busy  *sync.Mutex // of the agent, until the client has given up
		fault func(context.Context) error
	}{
		"clock": {&a.clocks.mu, func(ctx context.Context) error {
			_, err := c.ShiftClock(ctx, []framework.Component{framework.Etcd}, framework.ClockShift{Offset: time.Hour}, time.Hour)
			return err
		}},
		"wipe": {&a.etcd.mu, func(ctx context.Context) error { _, err := c.WipeDisk(ctx, time.Hour); return err }},
	} {
		tc.busy.Lock()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := tc.fault(ctx)
		cancel()
		if err == nil {
			t.Fatalf("%s: a busy agent answered", name)
		}
		<-gone
		tc.busy.Unlock()
		<-over
		eventually(t, name+" is not active", func() bool { return len(a.store.active()) == 0 })
	}
	if !exists(db) {
		t.Error("the data are not back")
	}
}
