package workload

import (
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// An API server that answers no list does not take the time for the lists through the others.
func TestInformersOfSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		i := &informers{w: w, suffix: "x", servers: apiServers(c.Entrances()), settle: time.Second}
		for _, e := range i.servers {
			r, err := newRegisters(e, w, "informed/"+e.Name, DefaultNamespace, informedWrite, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			i.writers = append(i.writers, r)
			i.all = append(i.all, cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, nil))
		}
		if op := i.writers[1].create(t.Context(), i.name(7), content{value: "7"}); op.Outcome != record.OK {
			t.Fatal(op)
		}
		if err := i.all[1].GetStore().Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: i.name(7)}}); err != nil {
			t.Fatal(err)
		}
		c.Server(0).Hook(func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return true
		})
		ctx, cancel := contextFor(t, 20*time.Second)
		defer cancel()
		i.finish(ctx)
		last := map[string]record.Op{}
		for _, o := range read().Ops {
			last[o.V.Purpose+" "+o.V.Entrance] = o.V
		}
		if len(last) != 5 { // with the write
			t.Errorf("operations %+v", last)
		}
		for _, purpose := range []string{informedList, informedStore} {
			if op := last[purpose+" node-2"]; op.Outcome != record.OK || op.Value != "7" {
				t.Errorf("through the API server that answers: %+v", op)
			}
		}
		if op := last[informedList+" node-1"]; op.Outcome == record.OK || op.Error == "" {
			t.Errorf("through the one that does not: %+v", op)
		}
	})
}

// Clients use the proxy of their configuration only.
func TestWithoutProxy(t *testing.T) {
	own := &url.URL{Scheme: "http", Host: "proxy.invalid:3128"}
	for _, test := range []struct {
		config rest.Config
		want   *url.URL
	}{
		{rest.Config{}, nil},
		{rest.Config{Proxy: http.ProxyURL(own)}, own},
	} {
		config := withoutProxy(&test.config)
		if config.Proxy == nil {
			t.Fatal("a client would use the proxy of the environment")
		}
		if got, err := config.Proxy(nil); err != nil || got != test.want {
			t.Errorf("proxy %v, %v, want %v", got, err, test.want)
		}
	}
}
