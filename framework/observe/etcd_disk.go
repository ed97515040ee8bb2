package observe

import (
	"context"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

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
	fsync, commit *dto.Histogram // as last read
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
	nowFsync, nowCommit, err := histograms(io.LimitReader(resp.Body, maxMetrics))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, nil
	}
	fsync, commit = latency(nowFsync, d.fsync), latency(nowCommit, d.commit)
	d.fsync, d.commit = nowFsync, nowCommit
	return fsync, commit
}

// histograms reads those of the disk from a member's metrics; nil for one that it does not have.
func histograms(in io.Reader) (fsync, commit *dto.Histogram, err error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(in)
	if err != nil {
		return nil, nil, err
	}
	of := func(name string) *dto.Histogram {
		if all := families[name].GetMetric(); len(all) > 0 {
			return all[0].GetHistogram()
		}
		return nil
	}
	return of(fsyncMetric), of(commitMetric), nil
}

// latency returns the difference to an earlier reading. A restarted member counts from 0 again.
func latency(h, old *dto.Histogram) *record.Latency {
	if len(old.GetBucket()) == 0 {
		return nil // the start is not known
	}
	if old.GetSampleCount() > h.GetSampleCount() || len(old.GetBucket()) != len(h.GetBucket()) {
		old = &dto.Histogram{Bucket: make([]*dto.Bucket, len(h.GetBucket()))}
	}
	n := h.GetSampleCount() - old.GetSampleCount()
	if n == 0 {
		return nil
	}
	l := &record.Latency{Count: n, Mean: seconds((h.GetSampleSum() - old.GetSampleSum()) / float64(n)), P99: -1, Max: -1}
	for i, b := range slices.Backward(h.GetBucket()) {
		in := b.GetCumulativeCount() - old.GetBucket()[i].GetCumulativeCount() // at most this bound
		if in == n {
			l.Max = seconds(b.GetUpperBound())
		}
		if float64(in) >= 0.99*float64(n) {
			l.P99 = seconds(b.GetUpperBound())
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
