package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"k8s.io/client-go/util/cert"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// The harness reaches an etcd member through the agent if it has no other way to it. The agent
// authenticates with the node's own certificate, so that no key leaves the node, and members
// that listen on the loopback device alone can be reached as well.

// TLS returns the configuration of a client.
func (e EtcdClient) TLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	if err != nil {
		return nil, fmt.Errorf("failed to read the client certificate for etcd: %w", err)
	}
	roots, err := cert.NewPool(e.CA)
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA of etcd: %w", err)
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// dial opens a connection to the member on which it expects HTTP/2.
func (e EtcdClient) dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return nil, errNoMember
	}
	if u.Scheme != "https" {
		return (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	}
	config, err := e.TLS()
	if err != nil {
		return nil, err
	}
	config.NextProtos = []string{"h2"}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", u.Host)
}

// serveEtcd joins the two bodies of a request to a connection to the member.
func (a *agent) serveEtcd(w http.ResponseWriter, r *http.Request) {
	dialing, cancel := context.WithTimeout(r.Context(), networkLimit)
	conn, err := a.config.EtcdClient.dial(dialing)
	cancel()
	if err != nil {
		agenthttp.Error(w, fmt.Errorf("failed to reach etcd: %w", err))
		return
	}
	defer conn.Close()
	flush := http.NewResponseController(w).Flush
	if flush() != nil {
		return
	}
	go func() {
		_, _ = io.Copy(conn, r.Body)
		_ = conn.Close() // the client has closed its side
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil || flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// DialEtcd opens a connection to the node's etcd member, authenticated by the agent's
// configuration. Messages on it are HTTP/2 without TLS. Once open, the connection is not tied to ctx.
func (c *Client) DialEtcd(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	opened := context.AfterFunc(ctx, end)
	resp, err := c.http.Send(life, http.MethodPost, "etcd", far)
	if err == nil && !opened() {
		err = errors.Join(context.Cause(ctx), resp.Body.Close())
	}
	if err != nil {
		end()
		_, _ = near.Close(), far.Close()
		return nil, fmt.Errorf("failed to reach etcd on %s: %w", c.node, err)
	}
	go func() {
		defer end()
		_, _ = io.Copy(far, resp.Body)
		_, _ = resp.Body.Close(), far.Close()
	}()
	return near, nil
}
