package workload

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// etcdRead is a request that reads data of a member.
type etcdRead struct{ method, path, body string }

// etcdReads returns the requests for an endpoint of etcd by its name. Those of the client port go
// through etcd's gRPC gateway; the first requests one key of the whole store, without its value.
func etcdReads(endpoint string) []etcdRead {
	switch endpoint {
	case "client":
		return []etcdRead{
			{http.MethodPost, "/v3/kv/range", `{"key": "AA==", "range_end": "AA==", "limit": "1", "keys_only": true}`},
			{http.MethodPost, "/v3/cluster/member/list", `{}`},
		}
	case "peer":
		return []etcdRead{{http.MethodGet, "/members", ""}}
	}
	return nil
}

// UnknownEtcdClients reads from the client port and the peer port of each etcd member in
// plaintext, without a certificate, and with one that a foreign CA signed. The operations have
// the purpose "unknown-etcd-client", the port and the kind of client as their key, such as
// "peer/plaintext", and Found if data was served. Those with the kind "own" have the harness's
// own certificate and show that the port answers: their value is the serial number of the
// member's certificate, if that verified. The kind is "own CA" if the harness has no certificate,
// and only the CA to verify the member's. A node that does not report where etcd serves has one
// operation, with the key "no access".
//
// Of a port on which a member listens besides, only what it serves there is recorded: a client need
// not reach it.
func UnknownEtcdClients(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	// The name of etcd's superuser, if etcd authorizes clients by the name in their certificate.
	certificate, key, err := foreignCertificate(pkix.Name{CommonName: "root"})
	if err != nil {
		return fmt.Errorf("unknown etcd clients: failed to make a certificate: %w", err)
	}
	foreign, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("unknown etcd clients: failed to make a certificate: %w", err)
	}
	var unknown error
	var all sync.WaitGroup
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		lister, ok := n.(framework.EndpointLister)
		if !ok {
			now := w.Now()
			_ = w.Append(record.KindOp, record.Op{Client: "unknown-etcd-clients", Entrance: n.Name(), API: apiEtcd, Type: record.OpGet, Key: "no access",
				Purpose: "unknown-etcd-client", Call: now, Return: now, Outcome: record.Unknown, Error: "the node does not report where etcd serves"})
			continue
		}
		endpoints, err := lister.ServingEndpoints(framework.Etcd)
		unknown = errors.Join(unknown, err)
		for _, e := range endpoints {
			all.Go(func() {
				for _, u := range append(unknownClients(e, foreign), ownClient(e)) {
					u.read(ctx, n.Name(), false, w)
				}
			})
		}
		if listener, ok := n.(framework.EtcdListener); ok {
			for _, e := range listener.FurtherListeners() {
				all.Go(func() {
					for _, u := range unknownClients(e, foreign) {
						u.read(ctx, n.Name(), true, w)
					}
				})
			}
		}
	}
	all.Wait()
	if unknown != nil {
		return fmt.Errorf("unknown etcd clients: %w", unknown)
	}
	return w.Err()
}

// unknownClient is a client of one endpoint of etcd.
type unknownClient struct {
	framework.ServingEndpoint
	kind string
	tls  *tls.Config // nil for plaintext
}

func unknownClients(e framework.ServingEndpoint, foreign tls.Certificate) []unknownClient {
	// An unknown client does not verify the server, which may have a self-made certificate. A
	// certificate among Certificates would only be sent to a server that names its CA.
	without := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	with := without.Clone()
	with.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
	return []unknownClient{{e, "plaintext", nil}, {e, "no certificate", without}, {e, "foreign CA", with}}
}

// ownClient is the harness itself, which shows that the endpoint answers.
func ownClient(e framework.ServingEndpoint) unknownClient {
	own := e.TLS.Clone()
	if own.ServerName == "" {
		own.ServerName, _, _ = net.SplitHostPort(e.Address)
	}
	kind := "own"
	if len(own.Certificates) == 0 && own.GetClientCertificate == nil {
		kind = "own CA"
	}
	return unknownClient{e, kind, own}
}

// read tries the endpoint and records that, of a further port only what it serves. It retries if a
// request had no answer.
func (u unknownClient) read(ctx context.Context, node string, further bool, w *record.Writer) {
	for range stepTries {
		op := u.try(ctx, node, w)
		if further {
			op.Error += " at " + u.Address
		}
		if !further || op.Found {
			_ = w.Append(record.KindOp, op)
		}
		if op.Outcome != record.Unknown || !client.Pause(ctx, tokenPause) {
			return
		}
	}
}

// try makes the endpoint's requests, as one operation, until one is served. A client port that closes
// the connections of HTTP clients, or does not know the path, is tried over gRPC as well.
func (u unknownClient) try(ctx context.Context, node string, w *record.Writer) record.Op {
	op := record.Op{Client: "unknown-etcd-clients", Entrance: node, API: apiEtcd, Type: record.OpGet, Key: u.Name + "/" + u.kind,
		Purpose: "unknown-etcd-client", Call: w.Now(), Outcome: record.Refused}
	var err error
	for _, r := range etcdReads(u.Name) {
		var serial string
		op.Outcome, serial, err = u.ask(ctx, r)
		op.Value, op.Error = cmp.Or(serial, op.Value), r.method+" "+r.path+": "+errText(err)
		if op.Outcome != record.Refused {
			break
		}
	}
	if u.Name == "client" && op.Outcome != record.OK && !tlsAlert(err) && (op.Outcome == record.Refused || errors.As(err, new(statusError))) {
		switch serial, err := u.overGRPC(ctx); status.Code(err) {
		case codes.OK:
			op.Outcome, op.Value, op.Error = record.OK, serial, "gRPC "+pb.KV_Range_FullMethodName+": served"
		case codes.DeadlineExceeded, codes.Canceled:
			op.Outcome, op.Error = record.Unknown, "gRPC "+pb.KV_Range_FullMethodName+": "+errText(err)
		}
	}
	op.Found, op.Return = op.Outcome == record.OK, w.Now()
	return op
}

func errText(err error) string {
	if err == nil {
		return "served"
	}
	return client.Shorten(err.Error())
}

// ask makes one request on its own connection. Only the response counts: with TLS 1.3 a client
// completes its handshake before the server has seen its certificate.
func (u unknownClient) ask(ctx context.Context, r etcdRead) (o record.Outcome, serial string, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	conn, err := u.Connect(ctx)
	if err != nil {
		return record.Unknown, "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	res, serial, err := u.exchange(ctx, conn, r)
	switch {
	case ctx.Err() != nil:
		return record.Unknown, serial, fmt.Errorf("no answer within %s", stepTimeout)
	case err != nil && closedByServer(err):
		return record.Refused, serial, err
	case err != nil:
		return record.Unknown, serial, err
	}
	switch res.StatusCode {
	case http.StatusOK:
		return record.OK, serial, nil
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return record.Refused, serial, statusError(res.Status)
	}
	return record.Unknown, serial, statusError(res.Status)
}

// statusError is the HTTP status of a request that was not served.
type statusError string

func (e statusError) Error() string { return string(e) }

// overGRPC reads one key of the whole store, without its value, over gRPC: etcd's gateway may be
// off, or serve at another address (--enable-grpc-gateway, --listen-client-http-urls).
func (u unknownClient) overGRPC(ctx context.Context) (serial string, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	secure := insecure.NewCredentials()
	if u.tls != nil {
		secure = credentials.NewTLS(u.verifying(&serial))
	}
	conn, err := grpc.NewClient("passthrough:///"+u.Address, grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return u.Connect(ctx) }))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Limit: 1, KeysOnly: true})
	return serial, err
}

// verifying returns the client's TLS configuration, which sets serial to the serial number of the
// server's certificate if that was verified.
func (u unknownClient) verifying(serial *string) *tls.Config {
	config := u.tls.Clone()
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.VerifiedChains) > 0 {
			*serial = fmt.Sprintf("serial %x", s.PeerCertificates[0].SerialNumber)
		}
		return nil
	}
	return config
}

// exchange sends a request on a connection and reads the header of the response. It returns the
// serial number of the server's certificate, if it was verified.
func (u unknownClient) exchange(ctx context.Context, conn net.Conn, r etcdRead) (res *http.Response, serial string, err error) {
	scheme := "http"
	if u.tls != nil {
		scheme = "https"
		secure := tls.Client(conn, u.verifying(&serial))
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, serial, err
		}
		conn = secure
	}
	req, err := http.NewRequestWithContext(ctx, r.method, scheme+"://"+u.Address+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil, serial, err
	}
	req.Header.Set("Content-Type", client.JSON)
	if err := req.Write(conn); err != nil {
		return nil, serial, err
	}
	res, err = http.ReadResponse(bufio.NewReader(conn), req)
	return res, serial, err
}

// closedByServer reports whether the server closed the connection, with or without a TLS
// alert.
func closedByServer(err error) bool {
	return tlsAlert(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// tlsAlert reports whether the server closed a connection with a TLS alert.
func tlsAlert(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error"
}
