package tamper

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// read passes on a get or a list.
func (p *apiProxy) read(r *http.Request, query url.Values) (*http.Response, error) {
	path, u := r.URL.Path, r.URL.String()
	if isCollection(path) {
		if _, ok := p.desk.act(RefusedList, path); ok {
			return unavailable(r, shuttingDown), nil
		}
	}
	if _, ok := p.desk.act(EmptyAnswer, path); ok {
		return answerWith(r, nil, answer{http.StatusOK, []byte("{}")}), nil
	}
	claim := "" // the version that the answer is to have
	if query.Get("resourceVersionMatch") == "Exact" {
		if _, ok := p.desk.act(NewestList, path); ok {
			claim = query.Get("resourceVersion")
			query.Del("resourceVersion")
			query.Del("resourceVersionMatch")
			r.URL.RawQuery = query.Encode()
		}
	}
	if token := query.Get("continue"); token != "" {
		if newest, version, ok := newestPage(token); ok {
			if _, ok := p.desk.act(OtherPage, path); ok {
				claim = version
				query.Set("continue", newest)
				r.URL.RawQuery = query.Encode()
			}
		}
	}
	res, err := p.pass(r)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	now := answer{res.StatusCode, p.ownVersion(path, p.addresses(path, claimed(claim, body)))}
	if !p.desk.has(OldAnswer) {
		return answerWith(r, res, now), nil
	}
	if first, ok := p.remember(u, now); ok && !bytes.Equal(first.body, now.body) {
		if _, ok := p.desk.act(OldAnswer, path); ok {
			now = first
		}
	}
	return answerWith(r, res, now), nil
}

// isCollection reports whether a path is that of a namespaced collection, not of one object.
func isCollection(path string) bool {
	_, rest, found := strings.Cut(path, "/namespaces/")
	return found && strings.Count(rest, "/") == 1
}

// remember keeps the first answer to a URL, and returns it from the second on.
func (p *apiProxy) remember(u string, a answer) (first answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok = p.first[u]; !ok {
		p.first[u] = a
	}
	return first, ok
}

// newestPage turns a continuation token into one for the newest state, and returns
// the version that it was for. The token is that of k8s.io/apiserver,
// pkg/storage: base64 of JSON, where version -1 is the newest.
func newestPage(token string) (newest, version string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	var o object
	if err != nil || json.Unmarshal(b, &o) != nil || o["rv"] == nil {
		return "", "", false
	}
	version = string(o["rv"])
	o.set("rv", -1)
	return base64.RawURLEncoding.EncodeToString(o.bytes()), version, true
}

// addresses takes them out of an object, or of each object of a list.
func (p *apiProxy) addresses(path string, body []byte) []byte {
	var o object
	if !p.desk.has(NoAddresses) || json.Unmarshal(body, &o) != nil {
		return body
	}
	var items []object
	_ = json.Unmarshal(o["items"], &items) // an object that is not a list has none
	held := false
	for _, one := range append(items, o) {
		for _, field := range []string{"subsets", "endpoints"} {
			held = held || one[field] != nil
		}
	}
	if !held {
		return body
	}
	if _, ok := p.desk.act(NoAddresses, path); !ok {
		return body
	}
	for _, one := range append(items, o) {
		for _, field := range []string{"subsets", "endpoints"} {
			if one[field] != nil {
				one.set(field, []string{})
			}
		}
	}
	if items != nil {
		o.set("items", items)
	}
	return o.bytes()
}

// claimed gives a list another version, unless that is empty, and returns anything else unchanged.
func claimed(version string, body []byte) []byte {
	var o object
	if version == "" || json.Unmarshal(body, &o) != nil || o["items"] == nil {
		return body
	}
	meta := o.part("metadata")
	if meta == nil {
		return body
	}
	meta.set("resourceVersion", version)
	o.set("metadata", meta)
	return o.bytes()
}
