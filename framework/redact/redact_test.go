package redact

import (
	"fmt"
	"strings"
	"testing"
)

const (
	marker   = "hunter2marker"
	inBase64 = "aHVudGVyMm1hcmtlcg=="
)

// Secrets of every form are removed, and a second pass changes nothing.
func TestText(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + marker + "\nAAAA" + marker + "\n-----END RSA PRIVATE KEY-----\n"
	for secret, want := range map[string]string{
		key:                                 "[redacted]\n[redacted]\n[redacted]\n[redacted]\n",
		"before\n" + key + "after\n":        "before\n[redacted]\n[redacted]\n[redacted]\n[redacted]\nafter\n",
		strings.ReplaceAll(key, "\n", `\n`): `[redacted]\n`,
		"Authorization: Bearer " + marker + "abcdef":                    "Authorization: Bearer [redacted]",
		"authorization: basic " + marker:                                "authorization: basic [redacted]",
		"AWS_SECRET_ACCESS_KEY=" + marker + " started":                  "AWS_SECRET_ACCESS_KEY=[redacted] started",
		"eyJhbGciOiJSUzI1NiJ9.eyJ" + marker + ".sig" + marker + " used": "[redacted] used",
		"LS0tLS1CRUdJTiBSU0Eg" + marker:                                 "[redacted]",
		strings.Repeat("A", 64-len(marker)) + marker:                    "[redacted]",
		"abcdef." + marker + "abc":                                      "[redacted]",

		// By name.
		`{"password":"` + marker + `"}`:                      `{"password":"[redacted]"}`,
		"--client-secret=" + marker:                          "--client-secret=[redacted]",
		"token: " + marker:                                   "token: [redacted]",
		"  client-key-data: " + marker:                       "  client-key-data: [redacted]",
		`{\"token\":\"` + marker + `\"}`:                     `{\"token\":\"[redacted]\"}`,
		`password: "a ` + marker + `", user: "b"`:            `password: "[redacted]", user: "b"`,
		`password: 'it''s ` + marker + `' next`:              `password: '[redacted]' next`,
		`{"token": "a ` + marker + `","uid":"1"}`:            `{"token": "[redacted]","uid":"1"}`,
		`{"token": "a \" b ` + marker + `\\","uid":"1"}`:     `{"token": "[redacted]","uid":"1"}`,
		`"{\"token\": \"a \\\" ` + marker + `\", \"x\": 1}"`: `"{\"token\": \"[redacted]\", \"x\": 1}"`,
		`"{\"token\":\"` + marker + `" cut off`:              `"{\"token\":\"[redacted]" cut off`,
		`--token 'x ` + marker + `' --name y`:                `--token '[redacted]' --name y`,
		`--token ` + marker + ` --name y`:                    `--token [redacted] --name y`,
		`["--token","x ` + marker + `","--name"]`:            `["--token","[redacted]","--name"]`,
		`["run" "--password" "x ` + marker + `"]`:            `["run" "--password" "[redacted]"]`,
		`secret: "never closed ` + marker:                    `secret: "[redacted]`,
		`X-Auth-Token:[` + marker + ` b] Accept:[*/*]`:       `X-Auth-Token:[[redacted]] Accept:[*/*]`,
		`"tokens":["a ` + marker + `","b"],"x":1`:            `"tokens":[[redacted]],"x":1`,
		`/login?token=` + marker + `&user=x`:                 `/login?token=[redacted]&user=x`,
		`token=` + marker + ` password=` + marker:            `token=[redacted] password=[redacted]`,

		// In URLs.
		"GET https://root:" + marker + "@host:2379/x failed":          "GET https://[redacted]@host:2379/x failed",
		"mysql://root:" + marker + "@tcp(db:3306)/kine":               "mysql://[redacted]@tcp(db:3306)/kine",
		"git+ssh://" + marker + "@host/a@b":                           "git+ssh://[redacted]@host/a@b",
		"https://root:p@" + marker + "@host":                          "https://[redacted]@host",
		"https://a:2379,https://root:" + marker + "@b:2379":           "https://a:2379,https://[redacted]@b:2379",
		`parse "https://root:` + marker + `/x@host": invalid port`:    `parse "https://[redacted]@host": invalid port`,
		`{"url":"https://root:` + marker + `@host","mail":"a@b.net"}`: `{"url":"https://[redacted]@host","mail":"a@b.net"}`,

		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","requestObject":{"data":{"x":"` + marker + `"}}}`: "[redacted]",

		// Objects, as components log them: whole lines.
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"x":"` + inBase64 + `"},"type":"Opaque"}`:                                                        "[redacted]",
		`{"kind": "Secret", "stringData": {"x": "` + marker + `"}}`:                                                                                                          "[redacted]",
		`I1126 12:44:41.123456 1 request.go:1212] "Response Body" body="{\"kind\":\"Secret\",\"data\":{\"x\":\"` + inBase64 + `\"}}"`:                                        "[redacted]",
		`{"msg":"Request Body","body":"{\"data\":{\"x\":\"` + inBase64 + `\"},\"kind\":\"Secret\"}"}`:                                                                        "[redacted]",
		`{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":{"name":"x"},"data":{"x":"` + inBase64 + `"}}]}`:                                                        "[redacted]",
		`got &Secret{ObjectMeta:{x default},Data:map[string][]byte{x: [104 117 110 116],},Type:Opaque,StringData:map[string]string{y: ` + marker + `,},}`:                    "[redacted]",
		"body=<\n\t00000000  6b 38 73 00 0a 0c 0a 02  76 31 12 06 53 65 63 72  |k8s.....v1..Secr|\n\t00000010  68 75 6e 74                                       |hunt|\n >": "body=<\n[redacted]\n[redacted]\n >",
		`{"msg":"Response Body","body":"00000000  68 75 6e 74 65 72 32 6d  61 72 6b 65 72 0a        |` + marker + `.|\n"}`:                                                   "[redacted]",
		`{"kind":"Secret","stringData":{"x":"` + marker + `","y":"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"}}`:                                 "[redacted]",
	} {
		got := (&Redactor{}).Text(secret)
		if got != want {
			t.Errorf("%q becomes %q, want %q", secret, got, want)
		}
		if again := (&Redactor{}).Text(got); again != got {
			t.Errorf("%q becomes %q in a second pass", got, again)
		}
	}
}

// A log is useless without these, and a record proves nothing without them.
func TestTextKeeps(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	for _, plain := range []string{
		"I1124 19:55:03 server.go:150] Version: v1.37.1",
		"--token-auth-file=/etc/tokens.csv --tls-private-key-file=/pki/apiserver.key",
		"--service-account-issuer=https://kubernetes.default.svc",
		"lease kube-system/kube-scheduler is held by node-1_0a1b2c3d",
		"updated revision tokens for secretless pods",
		sum,
		"sha256:" + sum,
		"image registry.k8s.io/etcd@sha256:" + sum,
		"docker-pullable://etcd@sha256:" + sum,
		"docker://registry:5000/a@sha256:" + sum,
		`{"metadata":{"uid":"5f3c1f0e-7d5a-4a0e-9a77-3d1f5b0c2a11","resourceVersion":"123456"},"secretName":"planted"}`,
		"etcdserver: mvcc: required revision has been compacted, 123456",
		`Get "https://10.0.0.1:6443/api/v1/namespaces?resourceVersion=0": dial tcp 10.0.0.1:6443: connect: connection refused`,
		`Get "https://[fd00::1]:6443/readyz?as=a@b": context deadline exceeded`,
		`--enable-bootstrap-token-auth=true --token --name x`,
		"status 409 (Conflict): the object has been modified; please apply your changes to the latest version",
		"member 8e9e05c52164694d at http://10.0.0.1:2380, cluster cdf818194e3a8c32, to admin@example.com",
		"sleep.go 123456.12345 elapsed",
		`I1126 12:44:41 1 tokencleaner.go:117] "Starting token cleaner controller"`,
		"configMapAndSecretChangeDetectionStrategy: Watch",
		`{"kind":"ConfigMap","apiVersion":"v1","data":{"x":"y"}}`,
		`{"kind":"Event","involvedObject":{"kind":"Secret","namespace":"default","name":"x"},"reason":"Expired"}`,
		`{"kind":"Secret","managedFields":[{"fieldsV1":{"f:data":{".":{},"f:x":{}}}}]}`,
		"cluster-1 |  3 nodes  | deadbeef",
		"",
		"\n",
	} {
		if got := (&Redactor{}).Text(plain); got != plain {
			t.Errorf("%q becomes %q", plain, got)
		}
	}
}

// The secrets in the environment are known by their values.
func TestNew(t *testing.T) {
	t.Setenv("VENDOR_TOKEN", marker+"-long")
	t.Setenv("VENDOR_PASSWORD", marker)
	t.Setenv("VENDOR_TOKEN_FILE", "/etc/tokens")
	t.Setenv("VENDOR_SECRET", "a/b c+"+marker)
	for text, want := range map[string]string{
		"data: " + inBase64:                   "data: [redacted]==",
		"GET /x?q=a%2Fb+c%2B" + marker + "&y": "GET /x?q=[redacted]&y",
		"GET /a%2Fb%20c+" + marker + "/y":     "GET /[redacted]/y",
	} {
		if got := New().Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got, want := New().Text("with "+marker+"-long, "+marker+" and /etc/tokens"), "with [redacted], [redacted] and /etc/tokens"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A line of a log costs little: a bundle has up to 1 MiB of each.
func BenchmarkText(b *testing.B) {
	r := New()
	for _, line := range []string{
		`I1126 08:45:11.000000       1 trace.go:236] Trace[1]: "Update" accept:application/json,audit-id:0a1b,client:10.0.0.1,resource:leases,url:/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler (total time: 523ms)`,
		`{"level":"info","ts":"2026-11-26T08:45:11Z","caller":"mvcc/hash.go:157","msg":"storing new hash","hash":3957373735,"revision":12345,"compact-revision":12000}`,
		`W1126 08:45:11 reflector.go:561] failed to list *v1.Secret: Get "https://10.0.0.1:6443/api/v1/secrets?limit=500": dial tcp 10.0.0.1:6443: connect: connection refused`,
	} {
		b.Run(fmt.Sprint(len(line)), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				r.Text(line)
			}
		})
	}
}
