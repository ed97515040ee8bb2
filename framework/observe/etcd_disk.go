package observe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Histograms of an etcd member (https://etcd.io/docs/v3.6/metrics/#disk).
const (
	fsyncMetric  = "etcd_disk_wal_fsync_duration_seconds"
	commitMetric = "etcd_disk_backend_commit_duration_seconds"
)

// maxMetrics limits how much of a member's metrics is read, in bytes.
const maxMetrics = 16 << 20

// diskMeter reads the disk latencies of a member.
type diskMeter struct {
	url           string
	http          *http.Client
	fsync, commit histogram // as last read
}

// newDiskMeter reads the metrics that etcd serves on its client port.
func newDiskMeter(access framework.EtcdAccess, node string) (*diskMeter, error) {
	etcd, url, err := client.EtcdHTTP(access, node)
	if err != nil {
		return nil, err
	}
	return &diskMeter{url: url + "/metrics", http: etcd}, nil
}

func (d *diskMeter) close() { d.http.CloseIdleConnections() }

// read returns the latencies since the last call; nil the first time, and if there were none or
// they cannot be read.
func (d *diskMeter) read(ctx context.Context) (fsync, commit *record.Latency) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return nil, nil
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	all, err := readHistograms(io.LimitReader(resp.Body, maxMetrics), fsyncMetric, commitMetric)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, nil
	}
	fsync, commit = all[0].since(d.fsync), all[1].since(d.commit)
	d.fsync, d.commit = all[0], all[1]
	return fsync, commit
}

// histogram is a Prometheus histogram: the number of values, their sum, and how many were at most
// each bound.
type histogram struct {
	buckets []bucket // ascending; the last one's bound is infinite
	sum     float64
	count   uint64
}

type bucket struct {
	bound float64
	count uint64
}

// readHistograms reads histograms without extra labels from the text format
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
func readHistograms(in io.Reader, names ...string) ([]histogram, error) {
	all := make([]histogram, len(names))
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		for i, name := range names {
			if rest, ok := strings.CutPrefix(line, name+"_"); ok {
				if err := all[i].add(rest); err != nil {
					return nil, fmt.Errorf("metric %s: %q: %w", name, line, err)
				}
			}
		}
	}
	return all, lines.Err()
}

// add parses one line, without the name: `bucket{le="0.001"} 12`, `sum 0.5` or `count 12`.
func (h *histogram) add(line string) error {
	series, text, ok := strings.Cut(line, " ")
	if !ok {
		return fmt.Errorf("no value")
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	switch {
	case series == "sum":
		h.sum = value
	case series == "count":
		h.count = uint64(value)
	case strings.HasPrefix(series, `bucket{le="`):
		bound, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(series, `bucket{le="`), `"}`), 64)
		if err != nil {
			return err
		}
		h.buckets = append(h.buckets, bucket{bound, uint64(value)})
	}
	return nil
}

// since returns the difference to an earlier reading. A restarted member counts from 0 again.
func (h histogram) since(old histogram) *record.Latency {
	if len(old.buckets) == 0 {
		return nil // the start is not known
	}
	if old.count > h.count || len(old.buckets) != len(h.buckets) {
		old = histogram{buckets: make([]bucket, len(h.buckets))}
	}
	n := h.count - old.count
	if n == 0 {
		return nil
	}
	l := &record.Latency{Count: n, Mean: seconds((h.sum - old.sum) / float64(n)), P99: -1, Max: -1}
	for i := len(h.buckets) - 1; i >= 0; i-- {
		b := h.buckets[i]
		in := b.count - old.buckets[i].count // at most this bound
		if in == n {
			l.Max = seconds(b.bound)
		}
		if float64(in) >= 0.99*float64(n) {
			l.P99 = seconds(b.bound)
		}
	}
	return l
}

// seconds is -1 for infinity.
func seconds(s float64) time.Duration {
	if math.IsInf(s, 0) {
		return -1
	}
	return time.Duration(s * float64(time.Second))
}
