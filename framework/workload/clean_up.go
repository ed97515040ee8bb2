package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// CleanUp deletes the namespaces of traffic and probes, through the first entrance that accepts
// it: for clusters that stay. It tries until ctx ends, and does not wait until their content is
// gone.
func CleanUp(ctx context.Context, entrances []framework.Entrance) error {
	last := errors.New("the cluster has no entrance")
	for {
		for _, e := range entrances {
			if last = cleanUp(ctx, e); last == nil {
				return nil
			}
			last = fmt.Errorf("through %s: %w", e.Name, last)
		}
		if !client.Pause(ctx, 250*time.Millisecond) {
			return fmt.Errorf("failed to delete the namespaces of traffic and probes: %w (last answer: %w); delete the rest by hand", context.Cause(ctx), last)
		}
	}
}

func cleanUp(ctx context.Context, e framework.Entrance) error {
	api, err := client.NewAPI(e.Config, client.Options{})
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, name := range []string{ProbeNamespace, DefaultNamespace, workNamespace, ApplicationNamespace} {
		a := api.Do(ctx, client.Request{Method: http.MethodDelete, Path: "/api/v1/namespaces/" + name})
		if a.Outcome() != record.OK && a.Reason() != "NotFound" && a.Reason() != "Conflict" { // it is being deleted
			return fmt.Errorf("failed to delete namespace %s: %s", name, a.Problem())
		}
	}
	return nil
}

// ownPrefixes are the prefixes of all keys that holdfast writes to etcd past the API.
var ownPrefixes = []string{"/holdfast/", "holdfast/"}

// CleanUpEtcd deletes what holdfast wrote to etcd past the API, through the member on the first
// of the nodes that accepts it: for clusters that stay. Without nodes it has written nothing.
func CleanUpEtcd(ctx context.Context, access framework.EtcdAccess, nodes []string) error {
	var last error
	for _, node := range nodes {
		last = client.AskEtcd(ctx, access, node, 10*time.Second, func(ctx context.Context, etcd *clientv3.Client) error {
			for _, prefix := range ownPrefixes {
				if _, err := etcd.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
					return fmt.Errorf("through the member on %s: %w", node, err)
				}
			}
			return nil
		})
		if last == nil {
			return nil
		}
	}
	if last == nil {
		return nil
	}
	return fmt.Errorf("failed to delete holdfast's keys from etcd: %w; delete the keys with the prefixes %s by hand", last, strings.Join(ownPrefixes, " and "))
}
