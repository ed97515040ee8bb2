package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// forwarder joins connections of clients of this machine to an entrance of a cluster, which may
// be in another network namespace.
type forwarder struct {
	target string
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// forwardLimit is how long the forwarder tries to connect.
const forwardLimit = 10 * time.Second

func newForwarder(e framework.Entrance) (forwarder, error) {
	u, err := url.Parse(e.Config.Host)
	if err != nil {
		return forwarder{}, fmt.Errorf("failed to forward to %s: %w", e.Name, err)
	}
	f := forwarder{target: u.Host, dial: e.Config.Dial}
	if f.dial == nil {
		// It notices a server that stopped responding.
		f.dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}).DialContext
	}
	return f, nil
}

// serve joins every connection that l accepts to a new connection to the cluster.
func (f forwarder) serve(l net.Listener) {
	for {
		in, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // for example out of descriptors
			continue
		}
		go f.join(in)
	}
}

func (f forwarder) join(in net.Conn) {
	defer in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), forwardLimit)
	out, err := f.dial(ctx, "tcp", f.target)
	cancel()
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	pipe := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src)
		if t, ok := dst.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
		done <- struct{}{}
	}
	go pipe(out, in)
	go pipe(in, out)
	<-done
	<-done
}
