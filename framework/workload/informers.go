package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// The purposes of what StartInformers records.
const (
	informedWrite   = "informed-write"
	informedVersion = "informed-version"
	informedStore   = "informed-store"
	informedList    = "informed-list"
)

const (
	informedEach = 100 * time.Millisecond // between two writes
	informedLook = 500 * time.Millisecond // between two checks of an informer
	// informedSettle is how long informers may take at the end to catch up: client-go's retry
	// pause grows up to 30 s.
	informedSettle = 40 * time.Second
)

// informers are client-go's own, one for each API server, of ConfigMaps that no other client
// changes.
type informers struct {
	w       *record.Writer
	suffix  string
	servers []framework.Entrance
	writers []*registers
	all     []cache.SharedIndexInformer
	settle  time.Duration // informedSettle outside of tests
}

// StartInformers starts a client-go informer for each API server, and a client that creates
// ConfigMaps which they see, through one API server after the other: the operations have the
// purpose "informed-write". Those of the purpose "informed-version" record the version of an
// informer, twice a second. stop stops the writes, gives the informers time to catch up, and
// records the content of each (purpose "informed-store") and of a quorum list through its API
// server ("informed-list"): the value is the numbers of the ConfigMaps. Then it deletes them.
func StartInformers(ctx context.Context, c framework.Cluster, w *record.Writer) (stop func(), err error) {
	i := &informers{w: w, suffix: fresh(), servers: apiServers(c.Entrances()), settle: informedSettle}
	setup, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := EnsureNamespace(setup, i.servers, DefaultNamespace); err != nil {
		return nil, fmt.Errorf("informers: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	writing, enough := context.WithCancel(ctx)
	abandon := func() { enough(); end() }
	var running, written sync.WaitGroup
	for _, e := range i.servers {
		r, err := newRegisters(e, w, "informed/"+e.Name, DefaultNamespace, informedWrite, 2*time.Second)
		if err != nil {
			abandon()
			return nil, fmt.Errorf("informers: %w", err)
		}
		i.writers = append(i.writers, r)
		inf, err := i.informer(e)
		if err != nil {
			abandon()
			return nil, fmt.Errorf("informers: %w", err)
		}
		i.all = append(i.all, inf)
		running.Go(func() { inf.RunWithContext(ctx) })
		running.Go(func() { i.follow(writing, e, inf) })
	}
	if !cache.WaitForCacheSync(setup.Done(), i.synced) {
		abandon()
		return nil, fmt.Errorf("informers: not synced within %s (WaitForCacheSync): through %s", setupLimit, strings.Join(i.unsynced(), ", "))
	}
	written.Go(func() { i.write(writing) })
	return func() {
		enough()
		written.Wait()
		i.finish(context.WithoutCancel(ctx))
		end()
		running.Wait()
		closeAll(i.writers)
	}, nil
}

func (i *informers) synced() bool { return len(i.unsynced()) == 0 }

// unsynced returns the entrances whose informers have not listed anything.
func (i *informers) unsynced() (entrances []string) {
	for n, inf := range i.all {
		if !inf.HasSynced() {
			entrances = append(entrances, i.servers[n].Name)
		}
	}
	return entrances
}

// withoutProxy returns a copy of a configuration whose clients use no proxy from the environment.
func withoutProxy(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.Proxy == nil {
		config.Proxy = http.ProxyURL(nil)
	}
	return config
}

func (i *informers) informer(e framework.Entrance) (cache.SharedIndexInformer, error) {
	config := withoutProxy(e.Config)
	config.QPS = -1
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	maps := d.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(DefaultNamespace)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return maps.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return maps.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0, nil), nil
}

func (i *informers) name(n int) string { return fmt.Sprintf("informed-%s-%d", i.suffix, n) }

// write creates ConfigMaps until ctx ends.
func (i *informers) write(ctx context.Context) {
	for n := 0; client.Pause(ctx, informedEach); n++ {
		// Not cancelled: a write without an answer could reach the informers after the last list.
		i.writers[n%len(i.writers)].create(context.WithoutCancel(ctx), i.name(n), content{value: strconv.Itoa(n)})
	}
}

// follow records the version of an informer, until ctx ends.
func (i *informers) follow(ctx context.Context, e framework.Entrance, inf cache.SharedIndexInformer) {
	for client.Pause(ctx, informedLook) {
		now := i.w.Now()
		_ = i.w.Append(record.KindOp, record.Op{Client: "informer/" + e.Name, Entrance: e.Name, API: "kubernetes", Type: record.OpGet, Key: "configmaps",
			Purpose: informedVersion, Revision: inf.LastSyncResourceVersion(), Call: now, Return: now, Outcome: record.OK})
	}
}

// numbers returns the numbers of the ConfigMaps among some names, sorted.
func (i *informers) numbers(names []string) string {
	var all []int
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, "informed-"+i.suffix+"-"); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	var words []string
	for _, n := range all {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, " ")
}

// finish records the final content of the informers and the API servers, and deletes the ConfigMaps.
func (i *informers) finish(ctx context.Context) {
	var all sync.WaitGroup
	for n := range i.servers {
		all.Go(func() { i.compare(ctx, n) })
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	for _, name := range storeKeys(i.all[0]) {
		if strings.HasPrefix(name, "informed-"+i.suffix) && ctx.Err() == nil {
			i.writers[0].api.Do(ctx, client.Request{Method: http.MethodDelete, Path: i.writers[0].path(name)})
		}
	}
}

// compare records the content of a list through an API server, and that of its informer once it is
// the same or the time for that is over.
func (i *informers) compare(ctx context.Context, n int) {
	e := i.servers[n]
	var listed record.Op
	listing, cancel := context.WithTimeout(ctx, i.settle)
	defer cancel()
	tryUntil(listing, func() bool { listed = i.list(listing, i.writers[n], e); return listed.Outcome == record.OK })
	_ = i.w.Append(record.KindOp, listed)
	op := record.Op{Client: "informer/" + e.Name, Entrance: e.Name, API: "kubernetes", Type: record.OpGet, Key: "configmaps", Purpose: informedStore, Call: i.w.Now(), Outcome: record.OK}
	settle, cancel := context.WithTimeout(ctx, i.settle)
	defer cancel()
	for {
		op.Value = i.numbers(storeKeys(i.all[n]))
		if op.Value == listed.Value || listed.Outcome != record.OK || !client.Pause(settle, informedEach) {
			break
		}
	}
	op.Return = i.w.Now()
	_ = i.w.Append(record.KindOp, op)
}

func storeKeys(inf cache.SharedIndexInformer) (names []string) {
	for _, key := range inf.GetStore().ListKeys() {
		_, name, _ := cache.SplitMetaNamespaceKey(key)
		names = append(names, name)
	}
	return names
}

// list is a quorum list through an API server.
func (i *informers) list(ctx context.Context, r *registers, e framework.Entrance) record.Op {
	op, a := asked(ctx, r.api, i.w, record.Op{Client: "informed/" + e.Name, Entrance: e.Name, Type: record.OpGet, Consistency: "quorum", Key: "configmaps", Purpose: informedList},
		client.Request{Method: http.MethodGet, Path: r.path("")})
	var list metav1.PartialObjectMetadataList
	if op.Outcome == record.OK {
		if err := json.Unmarshal(a.Body, &list); err != nil || list.Kind != "ConfigMapList" {
			op.Outcome, op.Error = record.Unknown, client.Shorten(fmt.Sprintf("status %d, but no list: %s", a.Status, a.Body))
			return op
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		op.Found, op.Value, op.Revision = true, i.numbers(names), list.ResourceVersion
	}
	return op
}
