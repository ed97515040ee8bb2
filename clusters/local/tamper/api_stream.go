package tamper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// initialEnd annotates the bookmark that ends a streaming list's initial events.
const initialEnd = "k8s.io/initial-events-end"

// oldStream answers a streaming list with the state of some revisions ago, and with
// all that came after that.
func (p *apiProxy) oldStream(r *http.Request, query url.Values, by int64) (*http.Response, error) {
	now, err := p.version(r)
	if err != nil {
		return nil, err
	}
	newest, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the newest version of %s: %w", r.URL.Path, err)
	}
	old := strconv.FormatInt(max(1, newest-by), 10)
	begin, err := p.initialEvents(r, query, old)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"sendInitialEvents", "resourceVersionMatch"} {
		query.Del(name)
	}
	query.Set("resourceVersion", old)
	r.URL.RawQuery = query.Encode()
	res, err := p.pass(r)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), res.Body), res.Body}
	return res, nil
}

// initialEvents are what a streaming list would have started with at a version.
func (p *apiProxy) initialEvents(r *http.Request, query url.Values, version string) ([]byte, error) {
	q := r.Clone(r.Context())
	asked := url.Values{"resourceVersion": {version}, "resourceVersionMatch": {"Exact"}}
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		if s := query.Get(name); s != "" {
			asked.Set(name, s)
		}
	}
	q.URL.RawQuery = asked.Encode()
	res, err := p.pass(q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var list struct {
		Kind       string
		APIVersion string
		Items      []object
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("failed to list %s at version %s: status %d", r.URL.Path, version, res.StatusCode)
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("failed to list %s at version %s: %w", r.URL.Path, version, err)
	}
	var out bytes.Buffer
	kind := strings.TrimSuffix(list.Kind, "List")
	for _, o := range list.Items {
		o.set("kind", kind)
		o.set("apiVersion", list.APIVersion)
		writeEvent(&out, "ADDED", o)
	}
	end := object{}
	end.set("kind", kind)
	end.set("apiVersion", list.APIVersion)
	end.set("metadata", map[string]any{"resourceVersion": version, "annotations": map[string]string{initialEnd: "true"}})
	writeEvent(&out, "BOOKMARK", end)
	return out.Bytes(), nil
}

func writeEvent(out *bytes.Buffer, kind string, o object) {
	out.Write(append(watchEvent(kind, o), '\n'))
}
