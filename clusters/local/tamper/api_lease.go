package tamper

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// isElector reports whether a request comes from the elector of a component, whose user
// agent client-go gives an end of its own.
func isElector(r *http.Request) bool { return strings.HasSuffix(r.UserAgent(), "/leader-election") }

// election passes on what an elector asks for, and notes what it writes to its lease.
// Where it is claimed, a write is answered as done, and a read with the last one.
func (p *apiProxy) election(r *http.Request) (*http.Response, error) {
	path := r.URL.Path
	if r.Method == http.MethodGet {
		p.mu.Lock()
		last, known := p.written[path]
		p.mu.Unlock()
		if known {
			if _, ok := p.desk.act(ClaimedLease, path); ok {
				return last.claimed(r), nil
			}
		}
		return p.pass(r)
	}
	if r.Method != http.MethodPut {
		return p.pass(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("failed to read what an elector writes to %s: %w", path, err)
	}
	now := leaseWrite{r.Header.Get("Content-Type"), body}
	if _, ok := p.desk.act(ClaimedLease, path); ok {
		p.note(path, now)
		return now.claimed(r), nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	res, err := p.pass(r)
	if err == nil && res.StatusCode == http.StatusOK {
		p.note(path, now)
	}
	return res, err
}

// leaseWrite is a lease as an elector wrote it.
type leaseWrite struct {
	encoding string
	body     []byte
}

func (p *apiProxy) note(path string, w leaseWrite) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[path] = w
}

// claimed is the answer to a request as if the API server had the object.
func (w leaseWrite) claimed(r *http.Request) *http.Response {
	return answerWith(r, &http.Response{Header: http.Header{"Content-Type": {w.encoding}}}, answer{http.StatusOK, w.body})
}
