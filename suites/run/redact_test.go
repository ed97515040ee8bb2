package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/redact"
)

const marker = "hunter2marker"

func TestArguments(t *testing.T) {
	r := redactor{&redact.Redactor{}}
	args := []string{"holdfast", "certify", "--token", marker, "--name", "x", "--password=a " + marker, "--key", "https://root:" + marker + "@host"}
	if got := r.command(args); strings.Contains(fmt.Sprint(got), marker) || got[5] != "x" || got[6] != "--password="+redact.Mark {
		t.Errorf("%q", got)
	}
	got := r.arguments(clusters.ExtraArgs{"kube-apiserver": {"oidc-client-secret": marker, "v": "2", "token-auth-file": "/x", "etcd-servers": "https://root:" + marker + "@host:2379"}})["kube-apiserver"]
	if got["oidc-client-secret"] != redact.Mark || got["v"] != "2" || got["token-auth-file"] != "/x" || got["etcd-servers"] != "https://[redacted]@host:2379" {
		t.Errorf("%v", got)
	}
}
