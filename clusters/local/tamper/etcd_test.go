package tamper

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// certificates writes those of a node on the loopback and returns their directory.
func certificates(t *testing.T) (*pki.PKI, string) {
	t.Helper()
	p, err := pki.New(pki.Options{Cluster: "test", Service: netip.MustParseAddr("10.96.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := p.WriteNode(dir, "node-1", "https://127.0.0.1:1", []netip.Addr{loopback}); err != nil {
		t.Fatal(err)
	}
	return p, dir
}

// member starts an etcd member that wants certificates, and a proxy in front of
// it. It returns a client through the proxy and one past it.
func member(t *testing.T) (p *etcdProxy, through, direct *clientv3.Client) {
	t.Helper()
	authorities, dir := certificates(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = t.TempDir(), "panic", true
	urls := etcdtest.URLs(t, 2)
	clients, peers := urls[0], urls[1]
	clients.Scheme, clients.Host = "https", "127.0.0.1:"+clients.Port() // the address in the certificate
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientTLSInfo = transport.TLSInfo{CertFile: file(pki.EtcdServerCert), KeyFile: file(pki.EtcdServerKey), TrustedCAFile: file(pki.EtcdCACert), ClientCertAuth: true}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	p, err = startEtcd(EtcdConfig{Listen: "127.0.0.1:0", Member: clients.Host,
		Cert: file(pki.EtcdServerCert), Key: file(pki.EtcdServerKey), CA: file(pki.EtcdCACert)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	config, err := authorities.EtcdClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	open := func(address string, config *tls.Config) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + address}, TLS: config, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return p, open(p.addr.String(), config), open(clients.Host, config)
}

func put(t *testing.T, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	a, err := c.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return a.Header.Revision
}

func values(t *testing.T, c *clientv3.Client, key string, o ...clientv3.OpOption) (all []string) {
	t.Helper()
	a, err := c.Get(t.Context(), key, o...)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range a.Kvs {
		all = append(all, string(kv.Value))
	}
	return all
}

func TestEtcdProxy(t *testing.T) {
	p, through, direct := member(t)
	rules := func(t *testing.T, rules ...Rule) {
		t.Helper()
		if err := p.desk.set(rules); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(t *testing.T, what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	acted := func(t *testing.T, want int) {
		t.Helper()
		expect(t, "acted", p.desk.acted(), want)
	}
	ctx := t.Context()

	t.Run("no rules", func(t *testing.T) {
		rules(t)
		put(t, through, "plain/a", "1")
		expect(t, "read", values(t, through, "plain/a"), []string{"1"})
		lease, err := through.Grant(ctx, 60)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := through.KeepAliveOnce(ctx, lease.ID); err != nil {
			t.Error(err)
		}
		if _, err := through.Get(ctx, "plain/a", clientv3.WithRev(1<<40)); err != rpctypes.ErrFutureRev {
			t.Errorf("an error comes through as %v", err)
		}
		s, err := through.Status(ctx, through.Endpoints()[0])
		if err != nil || s.Leader != s.Header.MemberId {
			t.Errorf("status %v, %v", s, err)
		}
		acted(t, 0)
	})
	t.Run("no certificate", func(t *testing.T) {
		conn, err := tls.Dial("tcp", p.addr.String(), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if err == nil {
			t.Error("a client without a certificate was let in")
		}
	})
	t.Run("old range", func(t *testing.T) {
		rules(t, Rule{Mode: OldRange, Prefix: "old/", By: 1, After: 1, Times: 1})
		put(t, through, "old/a", "1")
		put(t, through, "old/a", "2")
		expect(t, "first", values(t, through, "old/a"), []string{"2"})
		expect(t, "second", values(t, through, "old/a"), []string{"1"})
		expect(t, "third", values(t, through, "old/a"), []string{"2"})
		acted(t, 1)
	})
	t.Run("consistency", func(t *testing.T) {
		rules(t, Rule{Mode: Serializable}, Rule{Mode: Linearizable})
		values(t, through, "plain/a")
		acted(t, 1)
		values(t, through, "plain/a", clientv3.WithSerializable())
		acted(t, 2)
	})
	t.Run("lost write", func(t *testing.T) {
		rules(t, Rule{Mode: LostWrite, Prefix: "lost/"})
		put(t, through, "lost/a", "1")
		a, err := through.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("lost/b"), "=", 0)).Then(clientv3.OpPut("lost/b", "1")).Commit()
		if err != nil || !a.Succeeded || a.Header.Revision == 0 || len(a.Responses) != 1 {
			t.Errorf("transaction %v, %v", a, err)
		}
		expect(t, "there", values(t, direct, "lost/", clientv3.WithPrefix()), []string(nil))
		acted(t, 2)
	})
	t.Run("lost update", func(t *testing.T) {
		rules(t, Rule{Mode: LostUpdate, Prefix: "kept/"})
		at := func(revision int64, op clientv3.Op) *clientv3.TxnResponse {
			a, err := through.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("kept/a"), "=", revision)).Then(op).Commit()
			if err != nil || !a.Succeeded || a.Header.Revision == 0 || len(a.Responses) != 1 {
				t.Fatalf("transaction %v, %v", a, err)
			}
			return a
		}
		a := at(0, clientv3.OpPut("kept/a", "1"))
		at(a.Header.Revision, clientv3.OpPut("kept/a", "2"))
		at(a.Header.Revision, clientv3.OpDelete("kept/a"))
		expect(t, "there", values(t, direct, "kept/", clientv3.WithPrefix()), []string{"1"})
		acted(t, 2)
	})
	t.Run("refused write", func(t *testing.T) {
		rules(t, Rule{Mode: RefusedWrite, Prefix: "no/"})
		if _, err := through.Put(ctx, "no/a", "1"); err == nil {
			t.Error("it was not refused")
		}
		expect(t, "there", values(t, direct, "no/a"), []string(nil))
	})
	t.Run("late write", func(t *testing.T) {
		rules(t, Rule{Mode: LateWrite, For: 100 * time.Millisecond})
		began := time.Now()
		put(t, through, "late/a", "1")
		if took := time.Since(began); took < 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
	t.Run("no compare", func(t *testing.T) {
		rules(t, Rule{Mode: NoCompare, Prefix: "swap/", For: time.Millisecond})
		version := put(t, through, "swap/a", "1")
		for i := range 2 {
			a, err := through.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("swap/a"), "=", version)).
				Then(clientv3.OpPut("swap/a", fmt.Sprint(i))).Commit()
			if err != nil || !a.Succeeded {
				t.Errorf("swap %d: %v, %v", i, a, err)
			}
		}
		acted(t, 2)
	})
	t.Run("low revision", func(t *testing.T) {
		rules(t, Rule{Mode: LowRevision, Prefix: "low/", By: 2})
		before := put(t, through, "plain/a", "2")
		expect(t, "revision", writeAll(t, through, "low/", "a=1"), before-1)
		acted(t, 1)
	})
	t.Run("a snapshot", func(t *testing.T) {
		rules(t, Rule{Mode: SpoiltSnapshot})
		take := func(c *clientv3.Client) []byte {
			r, err := c.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		lie, truth := take(through), take(direct)
		if len(lie) != len(truth) { // etcd's file grew in between
			lie, truth = take(through), take(direct)
		}
		if len(lie) != len(truth) || bytes.Equal(lie, truth) {
			t.Errorf("%d and %d bytes", len(lie), len(truth))
		}
	})
	t.Run("a member that does not answer", func(t *testing.T) {
		rules(t, Rule{Mode: OldStatus})
		if _, err := through.Status(ctx, through.Endpoints()[0]); err != nil {
			t.Fatal(err)
		}
		gone := func(*pb.StatusRequest) (*pb.StatusResponse, error) { return nil, errors.New("gone") }
		if a, err := p.status(ctx, &pb.StatusRequest{}, gone); err != nil || a.Leader == 0 {
			t.Errorf("%v, %v", a, err)
		}
		acted(t, 1)
		rules(t)
		if _, err := p.status(ctx, &pb.StatusRequest{}, gone); err == nil {
			t.Error("it answers")
		}
	})
	t.Run("an older release", func(t *testing.T) {
		rules(t, Rule{Mode: OlderRelease, By: 1})
		lie, err := through.Status(ctx, through.Endpoints()[0])
		if err != nil {
			t.Fatal(err)
		}
		truth, err := direct.Status(ctx, direct.Endpoints()[0])
		var is, patch, says int
		if _, scan := fmt.Sscanf(truth.Version+" "+lie.Version, "3.%d.%d 3.%d.0", &is, &patch, &says); err != nil || says != is-1 {
			t.Errorf("reported %s, is %s: %v, %v", lie.Version, truth.Version, err, scan)
		}
		acted(t, 1)
	})
	t.Run("answers about the member", func(t *testing.T) {
		rules(t, Rule{Mode: WrongHash}, Rule{Mode: FalseAlarm})
		endpoint := through.Endpoints()[0]
		lie, err := through.HashKV(ctx, endpoint, 0)
		if err != nil {
			t.Fatal(err)
		}
		truth, err := direct.HashKV(ctx, direct.Endpoints()[0], lie.HashRevision)
		if err != nil || truth.Hash == lie.Hash {
			t.Errorf("hash %d, %v", lie.Hash, err)
		}
		alarms, err := through.AlarmList(ctx)
		if err != nil || len(alarms.Alarms) != 1 {
			t.Errorf("alarms %v, %v", alarms, err)
		}
		acted(t, 2)
	})
	t.Run("unknown mode", func(t *testing.T) {
		if err := p.desk.set([]Rule{{Mode: OldAnswer}}); err == nil {
			t.Error("the etcd proxy took a mode of the API proxy")
		}
	})

	for _, test := range []struct {
		mode Mode
		o    []clientv3.OpOption
		// writes are made one by one; "x=1,y=2" is one transaction.
		writes []string
		want   []string
	}{
		{"", nil, []string{"a=1", "a=2", "a=3"}, []string{"a=1 created", "a=2", "a=3"}},
		{WrongPrevious, []clientv3.OpOption{clientv3.WithPrevKV()}, []string{"a=1", "a=2", "a=3"},
			[]string{"a=1 created", "a=2 before 1", "a=3 before 3"}},
		{CreateAsModify, nil, []string{"a=1", "b=1", "c=1"}, []string{"a=1 created", "b=1", "c=1 created"}},
		{SplitRevision, nil, []string{"a=1,b=1", "a=2,b=2", "c=1"}, []string{"a=1 created + b=1 created", "a=2", "b=2", "c=1 created"}},
	} {
		t.Run("watch "+string(test.mode), func(t *testing.T) {
			prefix := "watch-" + string(test.mode) + "/"
			if test.mode == "" {
				rules(t)
			} else {
				rules(t, Rule{Mode: test.mode, Prefix: prefix, After: 1, Times: 1})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			events := through.Watch(ctx, prefix, append([]clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCreatedNotify()}, test.o...)...)
			<-events
			for _, w := range test.writes {
				writeAll(t, direct, prefix, w)
			}
			for _, want := range test.want {
				select {
				case r := <-events:
					expect(t, "response", words(r, prefix), want)
				case <-ctx.Done():
					t.Fatalf("nothing came, want %s", want)
				}
			}
			if test.mode != "" {
				acted(t, 1)
			}
		})
	}

	t.Run("watch silent-gap", func(t *testing.T) {
		from := put(t, direct, "gap/a", "1")
		put(t, direct, "gap/a", "2")
		now := put(t, direct, "gap/a", "3")
		if _, err := direct.Compact(ctx, now); err != nil {
			t.Fatal(err)
		}
		watch := func() clientv3.WatchResponse {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			events := through.Watch(ctx, "gap/a", clientv3.WithRev(from), clientv3.WithCreatedNotify())
			r := <-events
			if r.Created {
				put(t, direct, "gap/a", "4")
				r = <-events
			}
			return r
		}
		rules(t)
		if r := watch(); r.Err() != rpctypes.ErrCompacted {
			t.Errorf("without a rule: %v, %v", r.Err(), r.Events)
		}
		rules(t, Rule{Mode: SilentGap, Prefix: "gap/"})
		if r := watch(); r.Err() != nil || len(r.Events) != 1 || string(r.Events[0].Kv.Value) != "4" {
			t.Errorf("with a rule: %v, %v", r.Err(), r.Events)
		}
		acted(t, 1)
	})
}

// writeAll writes what text says in one transaction.
func writeAll(t *testing.T, c *clientv3.Client, prefix, text string) int64 {
	t.Helper()
	var ops []clientv3.Op
	for i := 0; i < len(text); i += 4 { // "a=1,"
		ops = append(ops, clientv3.OpPut(prefix+text[i:i+1], text[i+2:i+3]))
	}
	a, err := c.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return a.Header.Revision
}

// words describes a response of a watch.
func words(r clientv3.WatchResponse, prefix string) (s string) {
	for i, e := range r.Events {
		if i > 0 {
			s += " + "
		}
		s += string(e.Kv.Key)[len(prefix):] + "=" + string(e.Kv.Value)
		if e.Type == mvccpb.Event_DELETE {
			s += " deleted"
		}
		if e.IsCreate() {
			s += " created"
		}
		if e.PrevKv != nil {
			s += " before " + string(e.PrevKv.Value)
		}
	}
	return s
}

func (p *etcdProxy) close() {
	p.server.Stop()
	_ = p.member.Close()
}
