package local

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// etcdOrder is what an agent is to do with the data of its etcd member right
// before it starts the member the next time.
type etcdOrder struct {
	// From is a directory whose content becomes the member's data; empty if
	// it is to have none.
	From string `json:"from,omitempty"`
	// InitialCluster is set where the member joins a cluster that exists.
	InitialCluster string `json:"initialCluster,omitempty"`
	// Done says that the data has been changed. The order of a member that
	// joins stands until the member has data of its own.
	Done bool `json:"done,omitempty"`
}

// serveEtcd answers POST /etcd. A member without data to come is ended and
// started; one with data to come must be down.
func (a *agent) serveEtcd(w http.ResponseWriter, r *http.Request) {
	var order etcdOrder
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s := a.supervisors[framework.Etcd]
	if s == nil {
		http.Error(w, "no etcd here", http.StatusNotFound)
		return
	}
	var err error
	if order.From != "" {
		err = s.replaceDown(order)
	} else {
		err = s.replaceNow(r.Context(), order)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

func (s *supervisor) replaceDown(order etcdOrder) error {
	if pid, _ := s.current(); pid != 0 || time.Now().After(s.a.saved(s.spec.Name).HoldUntil) {
		return errors.New("it is not held down")
	}
	s.a.update(s.spec.Name, func(st *savedState) { st.Etcd = &order })
	return nil
}

// replaceNow ends what runs until a process has been started that has the new
// data: one may just be starting without it.
func (s *supervisor) replaceNow(ctx context.Context, order etcdOrder) error {
	s.a.update(s.spec.Name, func(st *savedState) { st.Etcd = &order })
	return await.Until(ctx, 20*time.Millisecond, func(context.Context) error {
		if o := s.a.saved(s.spec.Name).Etcd; o == nil || o.Done {
			return nil
		}
		if err := s.kill(0); err != nil && !errors.Is(err, errNotRunning) && !errors.Is(err, syscall.ESRCH) {
			return await.Fatal(err)
		}
		if err := s.start(); err != nil {
			return await.Fatal(err)
		}
		return errors.New("it has not been started with its new data")
	})
}

// arguments returns those of the next start of a component that has args, having carried
// out what is to be done before.
func (s *supervisor) arguments(args []string) ([]string, error) {
	order := s.a.saved(s.spec.Name).Etcd
	if order == nil {
		return args, nil
	}
	data := argument(args, "data-dir")
	if !order.Done {
		if err := etcddata.Replace(data, order.From); err != nil {
			return nil, err
		}
		s.a.update(s.spec.Name, func(st *savedState) {
			done := *order
			done.Done = true
			st.Etcd = &done
		})
	}
	if order.InitialCluster != "" && !wal.Exist(filepath.Join(data, "member", "wal")) {
		args = withArgument(args, "initial-cluster", order.InitialCluster)
		return withArgument(args, "initial-cluster-state", "existing"), nil
	}
	s.a.update(s.spec.Name, func(st *savedState) { st.Etcd = nil })
	return args, nil
}

// argument returns the value of an argument --name=value, empty without it.
func argument(args []string, name string) string {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// withArgument returns args with another value of one of them.
func withArgument(args []string, name, value string) []string {
	out := make([]string, 0, len(args)+1)
	for _, a := range args {
		if !strings.HasPrefix(a, "--"+name+"=") {
			out = append(out, a)
		}
	}
	return append(out, "--"+name+"="+value)
}
