package agent

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// TestLargeBatch: the kernel accepts a batch of 300 kB, as with the addresses of many workers, and not
// only one of the 208 kB that fit its usual buffer. The rules are long, so that the answers are few.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	onThread(t, func() error {
		runtime.LockOSThread() // the network namespace ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		b, err := newBatch()
		if err != nil {
			return err
		}
		b.AddTable(b.table)
		b.AddChain(b.chain("long"))
		if err := b.Flush(); err != nil {
			t.Log(err)
			return nil // without nftables there are no faults on the network
		}
		var long []expr.Any
		for range 120 {
			long = append(long, &expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1})
		}
		for range 75 {
			b.AddRule(&nftables.Rule{Table: b.table, Chain: b.chain("long"), Exprs: long})
		}
		if err := b.Flush(); errors.Is(err, unix.EMSGSIZE) {
			return err
		} else if err != nil {
			t.Log(err)
		}
		return nil
	})
}

// TestManyFrames: the kernel's answers to 400 rules for frames, as with the addresses of a hundred
// workers, fit the buffer.
func TestManyFrames(t *testing.T) {
	t.Parallel()
	onThread(t, func() error {
		runtime.LockOSThread() // the network namespace ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		f := newFrames()
		f.chain("in", "lo", false)
		for range 400 {
			f.rule("in", 0, frameOf(netip.MustParsePrefix("10.9.0.1/32"), false))
		}
		if err := f.flush(); errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EMSGSIZE) {
			return err
		} else if err != nil {
			t.Log(err) // without nftables there are no faults on the network
		}
		return nil
	})
}
