package tamper

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// ownVersion makes the server's own version older, and returns anything else unchanged.
func (p *apiProxy) ownVersion(path string, body []byte) []byte {
	var o object
	if !p.desk.has(OlderVersion) || json.Unmarshal(body, &o) != nil || o["gitVersion"] == nil {
		return body
	}
	minor, err := strconv.Atoi(o.text("minor"))
	if err != nil {
		return body
	}
	rule, ok := p.desk.act(OlderVersion, path)
	if !ok {
		return body
	}
	minor -= int(rule.By)
	o.set("minor", strconv.Itoa(minor))
	o.set("gitVersion", fmt.Sprintf("v%s.%d.0", o.text("major"), minor))
	return o.bytes()
}
