package suites

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// prepare prepares what the suite's processes share: binaries, and the results directory with the
// plan. Ginkgo calls it in the first process.
func (s *suite) prepare(ctx ginkgo.SpecContext) []byte {
	if len(s.plan.Scenarios) == 0 { // only other specs of the test binary run
		return nil
	}
	gomega.Expect(s.ready(ctx)).To(gomega.Succeed())
	dir, err := newDir(s.options.Out)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	if s.plan.Parallel = 1; !s.plan.Attach {
		s.plan.Parallel = run.Parallel(s.provider, s.plan.Cluster)
	}
	gomega.Expect(s.plan.Save(dir)).To(gomega.Succeed())
	b, err := json.Marshal(dir)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return b
}

// ready fetches what clusters need that the suite creates. One that it takes over must be safe for
// the faults of the plan, with its owner's consent.
func (s *suite) ready(ctx context.Context) error {
	if s.plan.Attach {
		owner, ok := s.provider.(clusters.Permitter)
		if !ok {
			return nil
		}
		return owner.Permit(ctx, s.plan.Cluster, s.plan.Effects()...)
	}
	var shown time.Time // the last status
	err := s.provider.Prepare(ctx, clusters.Preparation{Progress: progress, Release: release.Options{Progress: func(e release.Event) {
		if e.Lasting || time.Since(shown) > 10*time.Second {
			shown = time.Now()
			progress(e.String())
		}
	}}}, s.plan.Clusters()...)
	if err != nil {
		return fmt.Errorf("failed to prepare for the clusters: %w", err)
	}
	return nil
}

// progress prints a line immediately, since the work takes long.
func progress(line string) { fmt.Fprintln(os.Stderr, line) }

// join loads what prepare prepared. Ginkgo calls it in each process.
func (s *suite) join(b []byte) {
	if len(b) == 0 {
		return
	}
	gomega.Expect(json.Unmarshal(b, &s.dir)).To(gomega.Succeed())
	p, err := run.Load(s.dir)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for i := range s.plan.Parts { // containers point to them
		if !slices.Equal(p.Parts[i].Scenarios, s.plan.Parts[i].Scenarios) {
			ginkgo.Fail("the processes of the suite have different plans: were they built from the same sources?")
		}
	}
	p.Parts = s.plan.Parts
	*s.plan = *p
}

// newDir creates a results directory: out or, if that is not empty, out.2 and so on.
func newDir(out string) (string, error) {
	out = cmp.Or(out, filepath.Join("results", time.Now().Format("20060102-150405")))
	out, err := filepath.Abs(out)
	for n := 1; err == nil; n++ {
		dir := out
		if n > 1 {
			dir = fmt.Sprintf("%s.%d", out, n)
		}
		entries, problem := os.ReadDir(dir)
		if problem != nil && !errors.Is(problem, fs.ErrNotExist) {
			err = problem
		} else if len(entries) == 0 {
			return dir, os.MkdirAll(filepath.Join(dir, "logs"), 0o755)
		}
	}
	return "", fmt.Errorf("failed to create a results directory: %w; name another one with --out", err)
}

// file returns a lock that the suite's processes share.
func (s *suite) file(name string) *flock.Flock { return flock.New(filepath.Join(s.dir, name)) }

// The locks in the results directory while a suite runs.
const (
	planLock    = ".plan.lock"
	machineLock = ".machine.lock"
	slotLock    = ".slot-%d.lock"
)

// often is how often a process tries to take a lock.
const often = 200 * time.Millisecond

func (s *suite) locked(ctx context.Context, lock func(*flock.Flock, context.Context, time.Duration) (bool, error), f func() error) error {
	l := s.file(machineLock)
	if _, err := lock(l, ctx, often); err != nil {
		return fmt.Errorf("failed to wait for other processes of the suite: %w", err)
	}
	defer l.Close()
	return f()
}

// takeSlot waits until the machine has room for one more cluster.
func (s *suite) takeSlot(ctx context.Context) (*flock.Flock, error) {
	config, _ := ginkgo.GinkgoConfiguration()
	if config.ParallelTotal == 1 {
		return nil, nil
	}
	waiting := false
	for {
		for i := range s.plan.Parallel {
			slot := s.file(fmt.Sprintf(slotLock, i))
			if ok, err := slot.TryLock(); ok || err != nil {
				return slot, err
			}
		}
		if !waiting {
			ginkgo.By(fmt.Sprintf("waiting, since the machine can run %d clusters at a time", s.plan.Parallel))
			waiting = true
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(often):
		}
	}
}

// note saves the results of a part; other processes may do so at the same time.
func (s *suite) note(part *run.Part) error {
	l := s.file(planLock)
	if err := l.Lock(); err != nil {
		return fmt.Errorf("failed to lock the plan of the run: %w", err)
	}
	defer l.Close()
	p, err := run.Load(s.dir)
	if err != nil {
		return err
	}
	for i := range p.Parts {
		if p.Parts[i].Name == part.Name {
			p.Parts[i] = *part
		}
	}
	return p.Save(s.dir)
}

// problemsOf returns what could not be done for the clusters of a plan, such as deleting one.
func problemsOf(p *run.Plan) (problems []string) {
	for _, one := range p.Parts {
		if one.Problem != "" {
			problems = append(problems, one.Name+": "+one.Problem)
		}
	}
	return problems
}

// report writes the results. Ginkgo calls it in the first process, after all specs.
func (s *suite) report(_ ginkgo.SpecContext, r ginkgo.Report) {
	if r.SuiteConfig.DryRun || s.dir == "" {
		return
	}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), ".lock") {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, e.Name())))
		}
	}
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	p, err := run.Load(s.dir)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	problems := problemsOf(p)
	p.Ended, p.Problem = time.Now(), strings.Join(append(slices.Clone(r.SpecialSuiteFailureReasons), problems...), "; ")
	gomega.Expect(p.Save(s.dir)).To(gomega.Succeed())
	gomega.Expect(p.Judge(s.dir, s.options.Judges...).Write(s.dir)).To(gomega.Succeed())
	unclear := problems
	for _, spec := range r.SpecReports {
		// Ginkgo's summary at the end has only the names of specs.
		if spec.Failed() {
			progress(spec.LeafNodeText + ": " + spec.FailureMessage())
		}
		for _, more := range spec.AdditionalFailures {
			progress(spec.LeafNodeText + ": " + more.Failure.Message)
		}
		if spec.State.Is(types.SpecStateSkipped) && strings.HasPrefix(spec.Failure.Message, inconclusive) {
			unclear = append(unclear, spec.LeafNodeText+" is "+spec.Failure.Message)
		}
	}
	progress("results: " + filepath.Join(s.dir, "report.html"))
	if len(unclear) > 0 {
		ginkgo.Fail(strings.Join(unclear, "\n"))
	}
}
