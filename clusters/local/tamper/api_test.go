package tamper

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/holdfast-ha/holdfast/clusters/local/pki"
)

const path = "/api/v1/namespaces/n/configmaps"

// upstream is what the proxy needs of an API server: it knows the proxy by its
// certificate, lists two objects, counts its answers and watches.
type upstream struct {
	*httptest.Server
	answers int
	queries []string
	watched []string // lines of a watch
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.queries = append(u.queries, r.URL.RawQuery)
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case r.URL.Path == "/who":
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName + " for " + r.Header.Get("X-Remote-User") + " in " + r.Header.Get("X-Remote-Group")
		}
		fmt.Fprint(w, name)
	case q.Get("watch") == "true":
		for _, line := range u.watched {
			fmt.Fprintln(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	case strings.HasSuffix(r.URL.Path, "/endpoints/kubernetes"):
		fmt.Fprint(w, `{"kind":"Endpoints","subsets":[{"addresses":[{"ip":"10.0.0.1"}]}]}`)
	case r.URL.Path == "/apis":
		w.Header().Set("Content-Type", discoveryType)
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[]}`)
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"37","gitVersion":"v1.37.1","compiler":"gc"}`)
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		fmt.Fprint(w, `{"kind":"EndpointSliceList","items":[{"endpoints":[{"addresses":["10.0.0.1"]}]}],"metadata":{}}`)
	default:
		u.answers++
		fmt.Fprintf(w, `{"kind":"ConfigMapList","metadata":{"resourceVersion":"%d"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, 100+u.answers)
	}
}

// discoveryType is how an API server marks aggregated discovery. Clients take an answer
// without it for discovery of the older kind, and find nothing in it.
const discoveryType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// The type of an answer goes through as it is.
func TestDiscoveryType(t *testing.T) {
	_, _, client, base := server(t)
	res, err := client.Get(base + "/apis")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != discoveryType {
		t.Errorf("type %q", got)
	}
}

// server starts an upstream, a proxy in front of it and a client of the proxy.
func server(t *testing.T) (*upstream, *apiProxy, *http.Client, string) {
	t.Helper()
	authorities, dir := certificates(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	pair, err := tls.LoadX509KeyPair(file(pki.APIServerCert), file(pki.APIServerKey))
	if err != nil {
		t.Fatal(err)
	}
	front, err := cert.NewPool(file(pki.FrontProxyCACert))
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{}
	u.Server = httptest.NewUnstartedServer(u)
	u.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: front, ClientAuth: tls.VerifyClientCertIfGiven}
	u.EnableHTTP2 = true
	u.StartTLS()
	t.Cleanup(u.Close)
	p, err := startAPI(APIConfig{Listen: "127.0.0.1:0", Server: u.Listener.Addr().String(),
		Cert: file(pki.APIServerCert), Key: file(pki.APIServerKey), CA: file(pki.CACert),
		FrontCert: file(pki.FrontProxyCert), FrontKey: file(pki.FrontProxyKey)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	config, err := authorities.RESTConfig(pki.Admin(), "https://"+p.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return u, p, client, "https://" + p.addr.String()
}

func TestAPIProxy(t *testing.T) {
	u, p, client, base := server(t)
	get := func(t *testing.T, where string) (int, string) {
		t.Helper()
		res, err := client.Get(base + where)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	list := func(t *testing.T, query string) string {
		t.Helper()
		_, body := get(t, path+query)
		var l struct {
			Metadata struct{ ResourceVersion string }
			Items    []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(body), &l); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		s := l.Metadata.ResourceVersion
		for _, i := range l.Items {
			s += " " + i.Metadata.Name
		}
		return s
	}
	rules := func(t *testing.T, rules ...Rule) {
		t.Helper()
		u.answers, u.queries = 0, nil
		if err := p.desk.set(rules); err != nil {
			t.Fatal(err)
		}
	}
	want := func(t *testing.T, what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	t.Run("identity", func(t *testing.T) {
		rules(t)
		_, who := get(t, "/who")
		want(t, "with a certificate", who, "front-proxy-client for holdfast-admin in system:masters")
		bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		req, _ := http.NewRequest(http.MethodGet, base+"/who", nil)
		req.Header.Set("X-Remote-User", "holdfast-admin")
		res, err := bare.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		want(t, "without one", string(b), "nobody")
	})
	t.Run("no rules", func(t *testing.T) {
		rules(t)
		want(t, "first", list(t, ""), "101 a b")
		want(t, "second", list(t, ""), "102 a b")
	})
	t.Run("unavailable", func(t *testing.T) {
		rules(t, Rule{Mode: Unavailable, Prefix: "/readyz"})
		if status, body := get(t, "/readyz"); status != 503 || !strings.Contains(body, "ServiceUnavailable") {
			t.Errorf("%d %s", status, body)
		}
		want(t, "another path", list(t, ""), "101 a b")
	})
	t.Run("refused list, refused watch", func(t *testing.T) {
		for mode, refused := range map[Mode]string{RefusedList: path + "?limit=2", RefusedWatch: path + "?watch=true"} {
			rules(t, Rule{Mode: mode, Prefix: path})
			for _, where := range []string{path + "?limit=2", path + "?watch=true", path + "/a", "/api/v1/namespaces/other/configmaps"} {
				res, err := client.Get(base + where)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if got := res.StatusCode == 503 && strings.Contains(string(b), "shutting down") && res.Header.Get("Retry-After") == ""; got != (where == refused) {
					t.Errorf("%s: %s was answered with %d %s", mode, where, res.StatusCode, b)
				}
			}
			if n := p.desk.acted(); n != 1 {
				t.Errorf("%s: acted %d times", mode, n)
			}
		}
	})
	t.Run("old answer", func(t *testing.T) {
		rules(t, Rule{Mode: OldAnswer, Prefix: path, After: 1})
		want(t, "first", list(t, "?limit=7"), "101 a b")
		want(t, "second", list(t, "?limit=7"), "102 a b")
		want(t, "third", list(t, "?limit=7"), "101 a b")
	})
	t.Run("empty answer", func(t *testing.T) {
		rules(t, Rule{Mode: EmptyAnswer, Prefix: path, Times: 1})
		status, body := get(t, path)
		want(t, "first", fmt.Sprint(status, " ", body), "200 {}")
		want(t, "second", list(t, ""), "101 a b")
	})
	t.Run("ended watch", func(t *testing.T) {
		u.watched = []string{`{"type":"MODIFIED","object":{}}`}
		rules(t, Rule{Mode: EndedWatch, Prefix: path, Times: 1})
		status, body := get(t, path+"?watch=true")
		want(t, "first", fmt.Sprint(status, " ", body), "200 ")
		if _, body = get(t, path+"?watch=true"); body == "" {
			t.Error("the second one ended, too")
		}
	})
	t.Run("newest list", func(t *testing.T) {
		rules(t, Rule{Mode: NewestList, Prefix: path})
		want(t, "list", list(t, "?resourceVersion=42&resourceVersionMatch=Exact&limit=3"), "42 a b")
		want(t, "asked", u.queries[0], "limit=3")
	})
	t.Run("other page", func(t *testing.T) {
		rules(t, Rule{Mode: OtherPage, Prefix: path})
		token := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":42,"start":"a"}`))
		want(t, "list", list(t, "?continue="+token), "42 a b")
		b, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(u.queries[0], "continue="))
		want(t, "asked", string(b), `{"rv":-1,"start":"a","v":"meta.k8s.io/v1"}`)
	})
	t.Run("no addresses", func(t *testing.T) {
		rules(t, Rule{Mode: NoAddresses, Prefix: "/"})
		_, body := get(t, "/api/v1/namespaces/default/endpoints/kubernetes")
		want(t, "endpoints", body, `{"kind":"Endpoints","subsets":[]}`)
		_, body = get(t, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
		want(t, "slices", body, `{"items":[{"endpoints":[]}],"kind":"EndpointSliceList","metadata":{}}`)
		want(t, "another list", list(t, ""), "101 a b")
		if n := p.desk.acted(); n != 2 {
			t.Errorf("acted %d times", n)
		}
	})
	t.Run("older version", func(t *testing.T) {
		rules(t, Rule{Mode: OlderVersion, Prefix: "/version", By: 2})
		_, body := get(t, "/version")
		want(t, "version", body, `{"compiler":"gc","gitVersion":"v1.35.0","major":"1","minor":"35"}`)
		want(t, "a list", list(t, ""), "101 a b")
		if n := p.desk.acted(); n != 1 {
			t.Errorf("acted %d times", n)
		}
	})
	t.Run("unfiltered and late start", func(t *testing.T) {
		u.watched = nil
		rules(t, Rule{Mode: Unfiltered, Prefix: path}, Rule{Mode: LateStart, Prefix: path})
		get(t, path+"?watch=true&labelSelector=x%3Dy&resourceVersion=5")
		want(t, "asked", strings.Join(u.queries, " "), "limit=1 resourceVersion=101&watch=true")
	})

	t.Run("old stream", func(t *testing.T) {
		u.watched = []string{`{"type":"MODIFIED","object":{}}`}
		rules(t, Rule{Mode: OldStream, Prefix: path, By: 60})
		_, body := get(t, path+"?watch=true&labelSelector=x%3Dy&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		want(t, "asked", strings.Join(u.queries, " "), "limit=1 labelSelector=x%3Dy&resourceVersion=41&resourceVersionMatch=Exact allowWatchBookmarks=true&labelSelector=x%3Dy&resourceVersion=41&watch=true")
		want(t, "answer", body, `{"object":{"apiVersion":"","kind":"ConfigMap","metadata":{"name":"a"}},"type":"ADDED"}
{"object":{"apiVersion":"","kind":"ConfigMap","metadata":{"name":"b"}},"type":"ADDED"}
{"object":{"apiVersion":"","kind":"ConfigMap","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"41"}},"type":"BOOKMARK"}
{"type":"MODIFIED","object":{}}
`)
		u.queries = nil
		get(t, path+"?watch=true&resourceVersion=5")
		want(t, "another watch", strings.Join(u.queries, " "), "watch=true&resourceVersion=5")
	})

	line := func(kind, name, version, value string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":%q},"data":{"value":%q}}}`, kind, name, version, value)
	}
	for _, test := range []struct {
		mode Mode
		want []string
	}{
		{"", []string{"ADDED 1 x", "MODIFIED 2 y", "MODIFIED 3 z", "DELETED 4 z"}},
		{LostLine, []string{"ADDED 1 x", "MODIFIED 3 z", "DELETED 4 z"}},
		{Silence, []string{"ADDED 1 x"}},
		{RepeatedLine, []string{"ADDED 1 x", "MODIFIED 2 y", "MODIFIED 3 z", "MODIFIED 3 z", "DELETED 4 z"}},
		{SwappedLines, []string{"ADDED 1 x", "MODIFIED 2 y", "DELETED 4 z", "MODIFIED 3 z"}},
		{AlteredLine, []string{"ADDED 1 x", "MODIFIED 2 y", "MODIFIED 3 y", "DELETED 4 z"}},
		{WrongType, []string{"ADDED 1 x", "ADDED 2 y", "MODIFIED 3 z", "DELETED 4 z"}},
		{EarlyBookmark, []string{"ADDED 1 x", "MODIFIED 2 y", "BOOKMARK 3 ", "MODIFIED 3 z", "DELETED 4 z"}},
	} {
		t.Run("watch "+string(test.mode), func(t *testing.T) {
			u.watched = []string{line("ADDED", "a", "1", "x"), line("MODIFIED", "a", "2", "y"), line("MODIFIED", "a", "3", "z"), line("DELETED", "a", "4", "z")}
			rules(t)
			if test.mode != "" {
				rules(t, Rule{Mode: test.mode, Prefix: path, After: 1, Times: 1})
			}
			_, body := get(t, path+"?watch=true&allowWatchBookmarks=true")
			var got []string
			for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
				var e struct {
					Type   string
					Object struct {
						Metadata struct{ ResourceVersion string }
						Data     struct{ Value string }
					}
				}
				if err := json.Unmarshal(s.Bytes(), &e); err != nil {
					t.Fatalf("%v: %s", err, s.Bytes())
				}
				got = append(got, e.Type+" "+e.Object.Metadata.ResourceVersion+" "+e.Object.Data.Value)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if n := p.desk.acted(); n != map[bool]int{true: 1}[test.mode != ""] {
				t.Errorf("acted %d times", n)
			}
		})
	}
}

func TestClaimedLease(t *testing.T) {
	u, p, client, base := server(t)
	ask := func(method, agent, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path+"/lease", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", agent)
		req.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", method, res.StatusCode, err)
		}
		return res.Header.Get("Content-Type") + " " + string(b)
	}
	const elector, other, claimed = "scheduler/leader-election", "kubectl", "application/vnd.kubernetes.protobuf "
	ask(http.MethodPut, elector, "one")
	if got := ask(http.MethodGet, elector, ""); !strings.Contains(got, "ConfigMapList") || u.answers != 2 {
		t.Errorf("without a rule: %s after %d answers", got, u.answers)
	}
	if err := p.desk.set([]Rule{{Mode: ClaimedLease, Prefix: path}}); err != nil {
		t.Fatal(err)
	}
	if got := ask(http.MethodGet, elector, ""); got != claimed+"one" {
		t.Errorf("what was written before the rule is read as %q", got)
	}
	if got := ask(http.MethodPut, elector, "two"); got != claimed+"two" {
		t.Errorf("a claimed write is answered with %q", got)
	}
	if got := ask(http.MethodGet, elector, ""); got != claimed+"two" || u.answers != 2 {
		t.Errorf("a claimed write is read as %q, after %d answers of the server", got, u.answers)
	}
	ask(http.MethodPut, other, "three")
	if got := ask(http.MethodGet, other, ""); !strings.Contains(got, "ConfigMapList") || u.answers != 4 {
		t.Errorf("others get %q after %d answers", got, u.answers)
	}
	if n := p.desk.acted(); n != 3 {
		t.Errorf("it acted %d times", n)
	}
}

func (p *apiProxy) close() {
	_ = p.web.Close()
	p.known.CloseIdleConnections()
	p.anonymous.CloseIdleConnections()
}
