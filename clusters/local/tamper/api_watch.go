package tamper

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// watch passes on a watch.
func (p *apiProxy) watch(r *http.Request, query url.Values) (*http.Response, error) {
	path := r.URL.Path
	if _, ok := p.desk.act(RefusedWatch, path); ok {
		return unavailable(r, shuttingDown), nil
	}
	if _, ok := p.desk.act(EndedWatch, path); ok {
		return answerWith(r, nil, answer{http.StatusOK, nil}), nil
	}
	if query.Get("labelSelector") != "" {
		if _, ok := p.desk.act(Unfiltered, path); ok {
			query.Del("labelSelector")
			r.URL.RawQuery = query.Encode()
		}
	}
	if version := query.Get("resourceVersion"); version != "" && version != "0" {
		if _, ok := p.desk.act(LateStart, path); ok {
			now, err := p.version(r)
			if err != nil {
				return nil, err
			}
			query.Set("resourceVersion", now)
			r.URL.RawQuery = query.Encode()
		}
	}
	pass := p.pass
	if query.Get("sendInitialEvents") == "true" {
		if rule, ok := p.desk.act(OldStream, path); ok {
			pass = func(r *http.Request) (*http.Response, error) { return p.oldStream(r, query, rule.By) }
		}
	}
	res, err := pass(r)
	if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return res, err
	}
	body := res.Body
	in, out := io.Pipe()
	l := &lines{desk: p.desk, path: path, bookmarks: query.Get("allowWatchBookmarks") == "true", data: map[string]json.RawMessage{}}
	go func() {
		defer body.Close()
		out.CloseWithError(l.copy(out, body))
	}()
	res.Body = in
	return res, nil
}

// version asks for the newest version of what a watch is of.
func (p *apiProxy) version(r *http.Request) (string, error) {
	q := r.Clone(r.Context())
	q.URL.RawQuery = "limit=1"
	res, err := p.pass(q)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var o object
	if err := json.NewDecoder(res.Body).Decode(&o); err != nil {
		return "", fmt.Errorf("failed to ask for the newest version of %s: %w", r.URL.Path, err)
	}
	return o.part("metadata").text("resourceVersion"), nil
}

// lines are the events of one watch.
type lines struct {
	desk      *desk
	path      string
	bookmarks bool
	// data are the objects' newest by name; an altered event shows the one
	// before.
	data map[string]json.RawMessage
	held json.RawMessage
	mute bool
}

func (l *lines) copy(to io.Writer, from io.Reader) error {
	for decoder := json.NewDecoder(from); ; {
		var line json.RawMessage
		if err := decoder.Decode(&line); err != nil {
			return err
		}
		for _, line := range l.tamper(line) {
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
}

// tamper returns the lines that a client receives in place of one.
func (l *lines) tamper(line json.RawMessage) []json.RawMessage {
	if l.mute {
		return nil
	}
	var event object
	if json.Unmarshal(line, &event) != nil {
		return []json.RawMessage{line}
	}
	kind, o := event.text("type"), event.part("object")
	if kind != "ADDED" && kind != "MODIFIED" && kind != "DELETED" || o == nil {
		return []json.RawMessage{line}
	}
	if _, l.mute = l.desk.act(Silence, l.path); l.mute {
		return nil
	}
	// The state with which a watch begins is in no order: what is done to it shows as
	// something else than what the mode says.
	change := kind != "ADDED"
	var before []json.RawMessage
	if l.bookmarks && change {
		if _, ok := l.desk.act(EarlyBookmark, l.path); ok {
			before = append(before, bookmark(o))
		}
	}
	line = l.alter(line, event, kind, o)
	held := l.held
	l.held = nil
	if _, ok := l.desk.act(LostLine, l.path); ok {
		return before
	}
	if held != nil {
		return append(before, line, held)
	}
	if !change {
		return append(before, line)
	}
	if _, ok := l.desk.act(SwappedLines, l.path); ok {
		l.held = line
		return before
	}
	if _, ok := l.desk.act(RepeatedLine, l.path); ok {
		before = append(before, line)
	}
	return append(before, line)
}

// bookmark returns an event that says that all up to the object has been sent.
func bookmark(o object) json.RawMessage {
	b := object{"kind": o["kind"], "apiVersion": o["apiVersion"]}
	b.set("metadata", map[string]string{"resourceVersion": o.part("metadata").text("resourceVersion")})
	return watchEvent("BOOKMARK", b)
}

func watchEvent(kind string, o object) json.RawMessage {
	e := object{}
	e.set("type", kind)
	e.set("object", o)
	return e.bytes()
}

// alter changes what an event says.
func (l *lines) alter(line json.RawMessage, event object, kind string, o object) json.RawMessage {
	name := o.part("metadata").text("name")
	old := l.data[name]
	l.data[name] = o["data"]
	changed := false
	if old != nil && kind == "MODIFIED" {
		if _, ok := l.desk.act(AlteredLine, l.path); ok {
			o["data"], changed = old, true
			event.set("object", o)
		}
	}
	if other := map[string]string{"ADDED": "MODIFIED", "MODIFIED": "ADDED"}[kind]; other != "" {
		if _, ok := l.desk.act(WrongType, l.path); ok {
			event.set("type", other)
			changed = true
		}
	}
	if !changed {
		return line
	}
	return event.bytes()
}
