package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/framework"
)

// RejoinEtcd implements framework.EtcdOperator.
func (c *Client) RejoinEtcd(ctx context.Context, members []framework.EtcdPeer) error {
	return c.do(ctx, changeLimit, http.MethodPost, "rejoin", "change the data of etcd", &request{Cluster: members}, nil)
}

// ReplaceEtcdData implements framework.EtcdOperator.
func (c *Client) ReplaceEtcdData(ctx context.Context, dir string) error {
	ctx, cancel := agenthttp.Within(ctx, uploadLimit+changeLimit)
	defer cancel()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := etcddata.Pack(w, dir)
		w.CloseWithError(err)
		packed <- err
	}()
	resp, err := c.http.Send(ctx, http.MethodPut, "data", r)
	_ = r.Close()
	if own := <-packed; own != nil && !errors.Is(own, io.ErrClosedPipe) {
		err = own // of which the agent has seen only the end
	}
	if err != nil {
		return fmt.Errorf("failed to change the data of etcd on %s: %w", c.node, err)
	}
	return resp.Body.Close()
}

// EtcdPeer implements framework.EtcdOperator.
func (c *Client) EtcdPeer(ctx context.Context) (peer framework.EtcdPeer, err error) {
	err = c.do(ctx, answerLimit, http.MethodGet, "etcd-peer", "read the configuration of etcd", nil, &peer)
	return peer, err
}

// WipeDisk takes the data of the etcd member away until RestoreDisk or until ttl has passed,
// when the same data are put back, and returns a handle. A running member is killed before
// either change and started after it: no file stays open across one. If the data are already
// away, WipeDisk does nothing and returns no handle.
func (c *Client) WipeDisk(ctx context.Context, ttl time.Duration) (handle string, err error) {
	err = c.do(ctx, changeLimit, http.MethodPost, "wipe", "wipe the data of etcd", &request{For: ttl}, &handle)
	return handle, err
}

// RestoreDisk puts back the data that WipeDisk took away; it does nothing if they are in place.
func (c *Client) RestoreDisk(ctx context.Context, handle string) error {
	return c.do(ctx, changeLimit, http.MethodPost, "unwipe", "restore the data of etcd", &request{Handle: handle}, nil)
}

// ListDisk lists the files of the etcd member's data, relative to their directory.
func (c *Client) ListDisk(ctx context.Context) (files []string, err error) {
	err = c.do(ctx, answerLimit, http.MethodGet, "data", "list the data of etcd", nil, &files)
	return files, err
}
