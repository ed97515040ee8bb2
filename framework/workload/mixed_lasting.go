package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// LastingObjects creates an object of each kind through each API server, recorded as by
// MixedObjects, and leaves them there.
func LastingObjects(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	return lasting(ctx, c, w, func(m *mixed, i int, object map[string]any) {
		if !m.served(ctx, object) {
			return
		}
		want := withName(object, lastingName(i))
		m.ask(ctx, m.servers[i], record.OpCreate, lastingKey(object, i), client.Request{Method: http.MethodPost, Path: mixedPath(object), Body: mustJSON(want)}, want)
	})
}

// LastingReads reads the objects of LastingObjects through each API server.
func LastingReads(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	return lasting(ctx, c, w, func(m *mixed, i int, object map[string]any) {
		key := lastingKey(object, i)
		path, want := stored(mixedPath(object), withName(object, lastingName(i)))
		for _, s := range m.servers {
			m.ask(ctx, s, record.OpGet, key, client.Request{Method: http.MethodGet, Path: path + "/" + lastingName(i)}, want)
		}
	})
}

func lasting(ctx context.Context, c framework.Cluster, w *record.Writer, do func(m *mixed, server int, object map[string]any)) error {
	m, err := newMixed(ctx, c, w)
	if err != nil {
		return err
	}
	defer m.close()
	err = m.each(func(object map[string]any) {
		for i := range m.servers {
			do(m, i, object)
		}
	})
	return errors.Join(err, w.Err())
}

// lastingName is the name of the objects that LastingObjects creates through an API server.
func lastingName(server int) string { return fmt.Sprintf("lasting-%d", server) }

func lastingKey(object map[string]any, server int) string {
	return object["kind"].(string) + "/" + lastingName(server)
}
